# frozen_string_literal: true

require "test_helper"
require "rbconfig"
require_relative "../../ext/abaca/probes"

# What a system has beyond POSIX 2008, as the C code is told.
class ProbesTest < Minitest::Test
  EXTENSION = File.expand_path("../../ext/abaca", __dir__)
  NAMES = [*Probes::LINUX.keys, *Probes::OTHERS.keys].freeze
  # A room that asks which system it is on, other than by a probe.
  ASKS = /^\s*#\s*(?:el)?if.*\b(?:__linux__|__APPLE__|__FreeBSD__|__GLIBC__|AB_HAS_\w+|AB_HAS\()/

  def texts
    @texts ||= Dir["**/*.{c,h}", base: EXTENSION].to_h { |path| [path, File.read(File.join(EXTENSION, path))] }
  end

  # A misspelt name would silently take the portable way.
  def test_each_probe_is_used_and_each_use_has_a_probe
    code = texts.values_at(*texts.keys.grep(%r{\A(?:os|io|rb)/}) - ["os/has.h"]).join
    used = code.scan(/\bAB_HAS_(\w+)/) + code.scan(/\bAB_HAS\((\w+)\)/)
    assert_equal NAMES.sort, used.flatten.uniq.sort
  end

  def test_no_other_room_asks
    asking = texts.select { |_, text| text.match?(ASKS) }.keys
    assert_empty asking.grep_v(%r{\A(?:os/|io/poller)})
  end

  # Nothing is left out of a room's code where all is there: one program asks for all of Linux.
  def test_what_links_is_there
    asked = []
    flags = Probes.flags(portable: false) do |source|
      asked << source
      !source.include?("kqueue") # on Linux there is none
    end
    assert_equal ["-D_GNU_SOURCE", *Probes::LINUX.keys.map { |name| "-DAB_HAS_#{name}" }], flags
    assert_equal 3, asked.size
  end

  def test_each_is_asked_for_alone_where_something_is_missing
    flags = Probes.flags(portable: false) { |source| !source.match?(/memfd_create|kqueue/) }
    assert_equal Probes::LINUX.keys - ["MEMFD"], flags.drop(1).map { |flag| flag.delete_prefix("-DAB_HAS_") }
  end

  # No other system lacks all of it, or nothing: FreeBSD has most.
  def test_each_may_be_missing_alone
    compiler = RbConfig::CONFIG.fetch("CC").split
    all = Probes.flags_of(*compiler, portable: false)
    failing = Probes::LINUX.keys.flat_map do |name|
      flags = all - ["-DAB_HAS_#{name}"]
      sources_with(name).reject { |path| compiles?(path, *compiler, *flags) }.map { |path| "#{path} without #{name}" }
    end
    assert_empty failing
  end

  # What a header asks is compiled with the file of its name.
  def sources_with(name)
    asking = texts.keys.grep(%r{\A(?:os|io)/}).select { |path| texts[path].match?(/\bAB_HAS_#{name}\b/) }
    asking.map { |path| path.sub(/h\z/, "c") }.uniq
  end

  def compiles?(path, *command)
    checks = ["-std=c11", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", "-I", EXTENSION]
    system(*command, *checks, File.join(EXTENSION, path), err: File::NULL)
  end

  def test_a_portable_build_asks_nothing
    assert_equal ["-D_POSIX_C_SOURCE=200809L"], Probes.flags(portable: true) { flunk }
  end

  def test_this_compiler
    compiler = RbConfig::CONFIG.fetch("CC")
    flags = Probes.flags_of(*compiler.split, portable: false)
    assert_includes flags, "-DAB_HAS_#{RUBY_PLATFORM.include?("linux") ? "EPOLL" : "KQUEUE"}"
    assert_equal ["-D_GNU_SOURCE"], Probes.flags_of("false", portable: false)
  end
end
