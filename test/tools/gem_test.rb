# frozen_string_literal: true

require "test_helper"
require "open3"
require "rbconfig"
require "rubygems/package"
require "socket"
require "tmpdir"

# The gem as others get it: what is in it, and that it installs and serves without this working tree.
class GemTest < Minitest::Test
  ROOT = File.expand_path("../..", __dir__)
  EXTCONF = File.join(ROOT, "ext/abaca/extconf.rb")
  # Another Ruby's gems, and bundler, stay out of it.
  CLEAN = %w[RUBYOPT RUBYLIB BUNDLE_GEMFILE GEM_PATH ABACA_WERROR].to_h { |name| [name, nil] }.freeze

  def build(folder)
    path = File.join(folder, "abaca.gem")
    command = [RbConfig.ruby, "-S", "gem", "build", "abaca.gemspec", "--output", path]
    output, status = Open3.capture2e(CLEAN, *command, chdir: ROOT)
    assert_predicate status, :success?, output
    path
  end

  # What git has, with what is not committed yet.
  def files_here
    words = %w[git ls-files --cached --others --exclude-standard lib ext exe sig docs]
    names = Open3.capture2(*words, chdir: ROOT).first.lines(chomp: true)
    names.select { |name| File.exist?(File.join(ROOT, name)) }
  end

  def test_it_has_what_require_the_commands_and_the_docs_need
    skip "no repository" unless system("git", "rev-parse", chdir: ROOT, out: File::NULL, err: File::NULL)

    Dir.mktmpdir do |folder|
      spec = Gem::Package.new(build(folder)).spec
      needed = files_here.grep(%r{\A(?:lib|ext|exe|sig)/|\Adocs/[^/]*\.md\z})
      assert_empty needed - spec.files
      assert_empty spec.files.grep(%r{/}) - files_here
      assert_equal %w[abaca abacactl puma pumactl], spec.executables
      assert_match(%r{\Ahttps://}, spec.homepage)
    end
  end

  def test_it_installs_and_serves
    Dir.mktmpdir do |folder|
      home = File.join(folder, "home")
      output, status = install(build(folder), home)
      assert_predicate status, :success?, output
      assert_equal "hello", served_by(File.join(home, "bin/abaca"), home, folder)
    end
  end

  # All of the native part is compiled, on a machine that has other tests to run.
  def deadline_seconds = 4 * super

  # Rack is this Ruby's own, so that nothing is fetched. Without optimisation it compiles in half the time.
  def install(gem, home)
    environment = CLEAN.merge("GEM_HOME" => home, "GEM_PATH" => [home, *Gem.path].join(":"), "MAKEFLAGS" => nil,
                              "ABACA_DEBUG" => "1")
    options = ["--local", "--no-document", "--ignore-dependencies", "--install-dir", home, "--bindir", "#{home}/bin"]
    Open3.capture2e(environment, RbConfig.ruby, "-S", "gem", "install", *options, gem, chdir: File.dirname(gem))
  end

  def served_by(command, home, folder)
    File.write(File.join(folder, "config.ru"), 'run ->(_) { [200, {}, ["hello"]] }')
    socket = File.join(folder, "socket")
    environment = CLEAN.merge("GEM_HOME" => home, "GEM_PATH" => [home, *Gem.path].join(":"))
    log = File.join(folder, "log")
    pid = spawn(environment, RbConfig.ruby, command, "-b", "unix://#{socket}", chdir: folder, out: log, err: log)
    client = connect(socket, log)
    client.write("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
    client.read[/\r\n\r\n(.*)\z/m, 1]
  ensure
    client&.close
    Process.kill(:TERM, pid) && Process.wait(pid) if pid
  end

  def connect(path, log)
    deadline = Process.clock_gettime(Process::CLOCK_MONOTONIC) + 50
    begin
      UNIXSocket.new(path)
    rescue SystemCallError
      flunk File.read(log) if Process.clock_gettime(Process::CLOCK_MONOTONIC) > deadline
      sleep 0.05
      retry
    end
  end

  # --- what is missing ---

  # Runs extconf.rb where it finds these commands only; returns its lines.
  def configure_with(commands, environment = {})
    Dir.mktmpdir do |folder|
      Dir.mkdir(File.join(folder, "bin"))
      commands.each { |name, text| File.write(File.join(folder, "bin", name), text, perm: 0o755) }
      variables = CLEAN.merge("PATH" => File.join(folder, "bin"), "CC" => nil).merge(environment)
      output, status = Open3.capture2e(variables, RbConfig.ruby, *@before, EXTCONF, chdir: folder)
      refute_predicate status, :success?
      output.lines(chomp: true)
    end
  end

  def test_a_compiler_that_is_missing_is_told_in_a_line
    line = "abaca: a C compiler is needed; no-such-cc is not there (Debian: apt-get install build-essential)"
    assert_equal [line], configure_with({}, "CC" => "no-such-cc")
  end

  def test_so_is_make
    lines = configure_with({ "cc" => "#!/bin/sh\n" }, "CC" => "cc")
    assert_equal ["abaca: make is needed (Debian: apt-get install build-essential)"], lines
  end

  def test_so_are_rubys_headers
    @before = ["-rrbconfig", "-e", 'RbConfig::CONFIG["rubyhdrdir"] = "/nowhere"; load ARGV.fetch(0)']
    line = "abaca: the headers of this Ruby are needed; ruby.h is not there (Debian: apt-get install ruby-dev)"
    assert_equal [line], configure_with({ "cc" => "#!/bin/sh\n", "make" => "#!/bin/sh\n" }, "CC" => "cc")
  end

  def test_macos_has_other_names_for_it
    @before = ["-W0", "-e", 'Object.const_set(:RUBY_PLATFORM, "arm64-darwin24"); load ARGV.fetch(0)']
    line = "abaca: make is needed (macOS: xcode-select --install)"
    assert_equal [line], configure_with({ "cc" => "#!/bin/sh\n" }, "CC" => "cc")
  end

  def test_so_is_a_c_library
    lines = configure_with({ "cc" => "#!/bin/sh\nexit 1\n", "make" => "#!/bin/sh\n" }, "CC" => "cc")
    assert_match(/\Aabaca: cc makes no program; mkmf\.log says why.*libc6-dev\)\z/, lines.last)
    assert_equal 1, lines.size
  end
end
