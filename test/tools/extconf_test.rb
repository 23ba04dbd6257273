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
      assert_recompiles_for_headers(folder)
    end
  end

  # A unit of translation is a room; make knows the headers that it includes.
  def assert_recompiles_for_headers(folder)
    make = ->(*words) { system("make", *words, chdir: folder, %i[out err] => File::NULL) }
    assert make.call("unit_http1.o")
    assert make.call("-q", "unit_http1.o"), "nothing has changed"
    headers = File.read(File.join(folder, "unit_http1.d")).scan(%r{[/ ](\w+/\w+\.h)\b}).flatten
    assert_includes headers, "http1/chunk.h"
    refute_includes headers, "engine/conn.h"
    header = File.join(File.dirname(EXTCONF), "http1/chunk.h")
    refute make.call("-q", "-W", header, "unit_http1.o"), "one has"
  end

  def test_the_gem_says_where_it_comes_from
    specification = Gem::Specification.load(File.expand_path("../../abaca.gemspec", __dir__))
    assert_match(%r{\Ahttps://\S+/abaca\z}, specification.homepage)
    assert_empty specification.files.grep_v(%r{\A(?:lib|ext|exe|sig|docs)/|\A[A-Z]+(?:\.md)?\z})
  end
end
