# frozen_string_literal: true

require "fileutils"
require "open3"
require "rbconfig"

module Bench
  # A Ruby that a benchmark can start: the one that runs it, or one in the Debian chroot that
  # bin/matrix makes. There the project is mounted under the same path as here, in a mount namespace
  # that ends with the process, so that paths mean the same on both sides.
  class Ruby
    MATRIX = File.join(ROOT, "tmp", "matrix")
    CHROOT = File.join(MATRIX, "debian")
    # sh -c ENTER name root chroot version arguments...: becomes that Ruby, under the same process id.
    ENTER = <<~SH
      root="$1" chroot="$2" version="$3"
      shift 3
      mkdir -p "$chroot$root" || exit 1
      for place in /proc /dev "$root"; do mount --bind "$place" "$chroot$place" || exit 1; done
      exec chroot "$chroot" env --chdir="$root" PATH="/matrix/$version/bin:/usr/sbin:/usr/bin:/sbin:/bin" \\
        HOME=/root LC_ALL=C.UTF-8 SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt "ruby$version" "$@"
    SH

    class << self
      # @return [Ruby] the one that runs the benchmark
      def here = @here ||= new(RUBY_VERSION[/\A\d+\.\d+/])

      # @param names [Array<String>, nil] such as "3.4"; nil for this one and all in the chroot
      # @return [Array<Ruby>]
      def pick(names = nil)
        names ||= [here.name, *Dir.children(File.join(CHROOT, "matrix")).sort].uniq
        names.map { |name| find(name) }
      rescue Errno::ENOENT
        [here]
      end

      # @param name [String] such as "3.4"
      # @return [Ruby]
      def find(name)
        @known ||= { here.name => here }
        @known[name] ||= new(name)
      end
    end

    # @return [String] such as "3.4"
    attr_reader :name

    # @param name [String] such as "3.4"
    def initialize(name)
      @name = name
    end

    # @param arguments [Array<String>] for Ruby
    # @return [Array<String>] what to execute
    # @raise [Unavailable] when it cannot be entered
    def command(*arguments)
      return [RbConfig.ruby, *arguments] if here?

      reason = obstacle and raise Unavailable, "no Ruby #{@name}: #{reason}"
      ["unshare", "--mount", "--propagation", "private", "sh", "-c", ENTER, "bench", ROOT, CHROOT, @name, *arguments]
    end

    # @return [String] RUBY_VERSION there
    def version = @version ||= here? ? RUBY_VERSION : output("-e", "print RUBY_VERSION")

    # @return [String] RUBY_DESCRIPTION there
    def description = @description ||= here? ? RUBY_DESCRIPTION : output("-e", "print RUBY_DESCRIPTION")

    # @return [String] the folder to load Abaca from, compiled for this Ruby from the working tree
    # @raise [Unavailable] when it does not compile
    def abaca
      @abaca ||= here? ? compiled_by_setup : compile
    end

    # @return [Boolean] whether it is the one that runs the benchmark
    def here? = equal?(self.class.here)

    private

    def obstacle
      return "bin/matrix has not made its chroot yet" unless File.exist?(File.join(MATRIX, "ready"))
      return "it is not in bin/matrix's chroot" unless File.exist?(File.join(CHROOT, "usr", "bin", "ruby#{@name}"))

      "only root can enter bin/matrix's chroot" unless Process.uid.zero?
    end

    def output(*arguments)
      text, status = Open3.capture2e(Child::CLEAN, *command(*arguments), chdir: ROOT)
      line = text[/^.*error:.*$/] || text.strip.lines.last.to_s.strip
      raise Unavailable, "Ruby #{@name}: #{line}" unless status.success?

      text
    end

    def compiled_by_setup
      lib = File.join(ROOT, "lib")
      return lib if File.exist?(File.join(lib, "abaca", "abaca.#{RbConfig::CONFIG.fetch("DLEXT")}"))

      raise Unavailable, "not compiled (bin/setup does it)"
    end

    # A copy of lib/ with an extension of its own, because the one in lib/ is this Ruby's.
    def compile
      lib = File.join(TMP, "abaca-ruby#{version}", "lib")
      build = File.join(TMP, "abaca-ruby#{version}", "build")
      FileUtils.mkdir_p([lib, build])
      FileUtils.cp_r(Dir.glob(File.join(ROOT, "lib", "*")), lib)
      warn "bench: compiling Abaca for Ruby #{version}"
      output("-e", <<~RUBY)
        Dir.chdir(#{build.dump})
        # mkmf's Makefile does not know the headers.
        newest = Dir[#{File.join(ROOT, "ext/abaca/*/*.h").dump}].map { |path| File.mtime(path) }.max
        Dir["*.o"].each { |object| File.delete(object) if File.mtime(object) < newest }
        system(RbConfig.ruby, #{File.join(ROOT, "ext/abaca/extconf.rb").dump}, out: IO::NULL) &&
          system("make", "-s", "-j2", out: IO::NULL) or abort("Abaca does not compile")
      RUBY
      # Never written in place: a server that runs has the old one mapped.
      target = File.join(lib, "abaca", "abaca.so")
      FileUtils.cp(File.join(build, "abaca.so"), "#{target}.new")
      File.rename("#{target}.new", target)
      lib
    end
  end
end
