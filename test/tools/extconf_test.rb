# frozen_string_literal: true

require "test_helper"
require "open3"
require "pty"
require "rbconfig"
require "tmpdir"

# How the gem is compiled where it is installed.
class ExtconfTest < Minitest::Test
  EXTCONF = File.expand_path("../../ext/abaca/extconf.rb", __dir__)
  # As Debian builds its Ruby.
  LTO = "-flto=auto -ffat-lto-objects"

  # Runs it on a terminal, as `gem install` does, and returns what stands there.
  def configure(folder, *words)
    lines = []
    command = [{ "ABACA_WERROR" => nil }, RbConfig.ruby, EXTCONF, *words]
    PTY.spawn(*command, chdir: folder, out: File::NULL) do |screen, _, pid|
      screen.each_line { |line| lines << line.chomp }
    rescue Errno::EIO # its other end has been closed
      assert_predicate Process::Status.wait(pid), :success?, lines.join("\n")
    end
    lines
  end

  def test_without_link_time_optimisation_and_in_parallel
    Dir.mktmpdir do |folder|
      words = ["--with-cflags=-O2 #{LTO} -fPIC", "--with-ldflags=#{LTO}", "--with-dldflags=#{LTO}"]
      assert_equal ["abaca: compiling the native part, up to a minute of CPU time"], configure(folder, *words)
      makefile = File.read(File.join(folder, "Makefile"))
      refute_match(/lto/, makefile[/^CFLAGS.*/] + makefile[/^ldflags.*/] + makefile[/^dldflags.*/])
      assert_match(/^CFLAGS.*-O2.*-fPIC.*-std=c11/, makefile)
      assert_match(/^MAKEFLAGS \+= -j\d+$/, makefile)
    end
  end

  # Compiles a file of rb/ by the Makefile; returns the headers that the compiler names.
  def compile(folder, *words)
    output, status = Open3.capture2e("make", "COUTFLAG=-H -o ", *words, "rb_words.o", chdir: folder)
    assert_predicate status, :success?, output
    assert_path_exists File.join(folder, "rb_words.o")
    output
  end

  def test_ruby_h_is_compiled_once_where_the_compiler_can
    Dir.mktmpdir do |folder|
      configure(folder)
      assert_match(%r{^! \./ruby\.h\.gch$}, compile(folder))
      assert system("make", "clean", chdir: folder, out: File::NULL)
      assert_empty Dir.glob("*.gch", base: folder)
      refute_includes compile(folder, "COMPILE=false"), "ruby.h.gch"
      assert_empty Dir.glob("*.gch", base: folder)
    end
  end

  def test_the_gem_says_where_it_comes_from
    specification = Gem::Specification.load(File.expand_path("../../abaca.gemspec", __dir__))
    assert_match(%r{\Ahttps://\S+/abaca\z}, specification.homepage)
    assert_empty specification.files.grep_v(%r{\A(?:lib|ext|exe|sig|docs)/|\A[A-Z]+(?:\.md)?\z})
  end
end
