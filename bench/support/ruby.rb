# frozen_string_literal: true

require "digest"
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

    # Ruby code with the folder to build in and that of the sources.
    COMPILE = <<~RUBY
      build, sources = %s, %s
      Dir.chdir(build)
      # mkmf's Makefile does not know the headers.
      newest = Dir[File.join(sources, "**", "*.h")].map { |path| File.mtime(path) }.max
      Dir["*.o"].each { |object| File.delete(object) if File.mtime(object) < newest }
      system(RbConfig.ruby, File.join(sources, "extconf.rb"), out: IO::NULL) &&
        system("make", "-s", "-j2", out: IO::NULL) or abort("Abaca does not compile")
    RUBY

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

    # @return [String] the version of RubyGems there
    def rubygems = @rubygems ||= here? ? Gem::VERSION : output("-e", "print Gem::VERSION")

    # @param root [String] of a checkout
    # @return [String] the folder to load Abaca from, compiled for this Ruby from that checkout
    # @raise [Unavailable] when it does not compile
    def abaca(root = ROOT)
      @abaca ||= {}
      @abaca[root] ||= here? ? compiled_by_setup(root) : compile(root)
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

    def compiled_by_setup(root)
      lib = File.join(root, "lib")
      return lib if File.exist?(File.join(lib, "abaca", "abaca.#{RbConfig::CONFIG.fetch("DLEXT")}"))

      raise Unavailable, "not compiled (bin/setup does it)"
    end

    # A copy of lib/ with an extension of its own, because the one in lib/ is this Ruby's. Its folder
    # is named after the sources, so that it stays as it is while a benchmark runs.
    def compile(root)
      digest = digest(root)
      lib = File.join(TMP, "abaca-ruby#{version}-#{digest}")
      return lib if File.exist?(lib)

      build = File.join(TMP, "build-ruby#{version}#{"-#{digest}" unless root == ROOT}")
      FileUtils.mkdir_p(build)
      File.open(File.join(build, "lock"), "w") do |lock|
        lock.flock(File::LOCK_EX)
        warn "bench: compiling Abaca for Ruby #{version}"
        output("-e", format(COMPILE, build.dump, sources(root, build).dump))
        copy_library(root, build, lib)
      end
      lib
    end

    # @return [String] the folder of the extension's sources. Only this checkout is mounted in the chroot.
    def sources(root, build)
      unless root == ROOT
        copy = File.join(build, "checkout")
        FileUtils.mkdir_p(copy)
        FileUtils.cp_r(%w[ext lib].map { |folder| File.join(root, folder) }, copy)
        root = copy
      end
      File.join(root, "ext", "abaca")
    end

    # The folder gets its name when it is complete.
    def copy_library(root, build, lib)
      copy = "#{lib}.#{Process.pid}"
      Dir.glob("**/*.rb", base: File.join(root, "lib")).each do |path|
        FileUtils.mkdir_p(File.dirname(File.join(copy, path)))
        FileUtils.cp(File.join(root, "lib", path), File.join(copy, path))
      end
      FileUtils.cp(File.join(build, "abaca.so"), File.join(copy, "abaca", "abaca.so"))
      File.exist?(lib) ? FileUtils.rm_rf(copy) : File.rename(copy, lib)
    end

    # @return [String] that changes with any source
    def digest(root)
      sources = Dir.glob(["ext/abaca/**/*.{c,h,rb}", "lib/**/*.rb"], base: root).sort
      sum = Digest::SHA256.new
      sources.each { |path| sum << path << File.binread(File.join(root, path)) }
      sum.hexdigest[0, 12]
    end
  end
end
