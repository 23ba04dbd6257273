# frozen_string_literal: true

require "test_helper"
require "tmpdir"
require_relative "../rooms"

# What `rake includes` finds: a room that includes what it must not know, and circles of files.
class RoomsTest < Minitest::Test
  KNOWN = {
    "base" => [], "io" => %w[base], "rb/run" => %w[base io rb/server], "rb/server" => %w[base io rb/run]
  }.freeze

  # files: their text by path, or what they include.
  def mistakes(files)
    Dir.mktmpdir do |root|
      files.each do |path, text|
        text = text.map { |name| "#include #{name.start_with?('<') ? name : name.dump}\n" }.join if text.is_a?(Array)
        FileUtils.mkdir_p(File.dirname(File.join(root, path)))
        File.write(File.join(root, path), text)
      end
      Rooms.new(root, KNOWN).mistakes
    end
  end

  def ring(count)
    (1..count).to_h { |nth| ["io/f#{nth}.c", ["io/f#{(nth % count) + 1}.h"]] }
  end

  def test_what_a_room_may_know
    assert_empty mistakes("io/a.c" => %w[io/b.h base/c.h <errno.h>], "rb/run/d.c" => %w[<ruby.h> io/b.h])
    assert_equal ["base/c.h must not include io/b.h"], mistakes("base/c.h" => %w[io/b.h])
    assert_equal ["io/a.c must not include ruby/io.h"], mistakes("io/a.c" => %w[<ruby/io.h>])
  end

  def test_a_circle_of_rooms
    found = mistakes("rb/run/a.c" => %w[rb/server/b.h], "rb/server/b.c" => %w[rb/server/c.h],
                     "rb/server/c.h" => %w[rb/run/a.h])
    assert_equal ["a circle crosses rooms: rb/run/a rb/server/b rb/server/c"], found
  end

  def test_rooms_that_know_each_other_without_a_circle
    assert_empty mistakes("rb/run/a.c" => %w[rb/server/b.h], "rb/server/b.h" => [], "rb/server/c.c" => %w[rb/run/a.h])
  end

  def test_a_circle_within_a_room
    assert_empty mistakes(ring(6))
    assert_equal ["a circle of 7 files, more than 6: #{(1..7).map { |nth| "io/f#{nth}" }.join(' ')}"], mistakes(ring(7))
  end

  # Files whose functions call each other, whatever header declares them.
  def ring_of_calls(count, call: "f%(1)")
    (1..count).to_h do |nth|
      ["io/f#{nth}.c", "static int own(void) {\n  return 0;\n}\n\nint f#{nth}(int a,\n  int b) {\n  " \
                       "return #{call.sub("%", ((nth % count) + 1).to_s)};\n}\n"]
    end
  end

  def test_a_circle_of_calls
    assert_empty mistakes(ring_of_calls(6))
    assert_match(/a circle of 7 files/, mistakes(ring_of_calls(7)).join)
    assert_empty mistakes(ring_of_calls(7, call: "own()"))
    assert_empty mistakes(ring_of_calls(7, call: "0; /* f% */"))
    assert_empty mistakes(ring_of_calls(7, call: 'g("f%")'))
  end

  def test_a_circle_of_calls_across_rooms
    found = mistakes("rb/run/a.c" => "void a(void) {\n  b();\n}\n", "rb/server/b.c" => "void b(void) {\n  a();\n}\n")
    assert_equal ["a circle crosses rooms: rb/run/a rb/server/b"], found
  end
end
