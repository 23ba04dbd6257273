# frozen_string_literal: true

require "test_helper"
require "abaca"
require "json"
require "stringio"

# The forms of the server's own lines, and what no byte can do to them.
class LogFormsTest < Minitest::Test
  BYTES = (0..255).map { |byte| byte.chr.b }.freeze
  REQUEST = { "REQUEST_METHOD" => "GET", "SCRIPT_NAME" => "", "PATH_INFO" => "/a" }.freeze
  # What no line may have inside: control characters as ASCII, as Latin-1 in UTF-8, line separators, and what turns the
  # direction of text.
  FORBIDDEN = /[\u0000-\u0008\u000a-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/
  CHARACTERS = [*0x80..0x9f, 0x61c, 0x200e, 0x200f, *0x2028..0x202e, *0x2066..0x2069].map { |code| [code].pack("U").b }

  # Everything that the block logs.
  def logged(**options)
    io = StringIO.new
    log = Abaca::Log.new(io, **options)
    yield log
    assert log.release(30), "the log was not written"
    io.string.force_encoding(Encoding::UTF_8)
  end

  def objects(**options, &)
    logged(format: :json, **options, &).lines.map { |line| JSON.parse(line) }
  end

  def raised(message)
    raise ArgumentError, message
  rescue ArgumentError => e
    e
  end

  def assert_clean(line, bytes)
    assert line.valid_encoding?, bytes.inspect
    refute_match FORBIDDEN, line.chomp, bytes.inspect
  end

  def test_no_byte_of_a_path_gets_into_a_line
    BYTES.each do |byte|
      env = REQUEST.merge("PATH_INFO" => "/x#{byte}y".b, "REQUEST_METHOD" => "G#{byte}T".b)
      line = logged { |log| log.swallowed(Abaca::Shutdown.new("x"), env) }
      assert_equal 1, line.count("\n"), byte.inspect
      assert_clean(line, byte)
      shown = byte.match?(/[ -~&&[^"\\]]/n) ? byte : format("\\x%02X", byte.ord)
      assert_includes line, "(G#{shown}T /x#{shown}y)"
    end
  end

  def test_no_byte_of_a_message_gets_into_a_line
    [*BYTES, *CHARACTERS].each do |bytes|
      text = logged { |log| log.app_error(RuntimeError.new("a#{bytes}b"), nil) }
      first, *others = text.split("\n", -1)
      assert_clean(first, bytes)
      assert_equal bytes == "\n" ? ["      b", ""] : [""], others
    end
    assert_includes logged { |log| log.info("caf\u00e9 \u{1f600}") }, "caf\u00e9 \u{1f600}"
    assert_includes logged { |log| log.info("caf\u00e9".encode(Encoding::UTF_16LE)) }, "caf\u00e9"
    assert_includes logged { |log| log.info("\xC2\x9B2J \xFF") }, '\xC2\x9B2J \xFF'
  end

  # The class of an exception, its cause and its frames are the app's, too; and an encoding may know no other.
  def test_no_byte_of_an_exception_gets_into_a_line
    kind = Class.new(RuntimeError) { def self.to_s = "Odd\u202e\u009b\nabaca: forged" }
    [*CHARACTERS, "\e", "\xff".b].each do |bytes|
      error = kind.new("message #{bytes}")
      error.set_backtrace(["/app/#{bytes}.rb:1:in `a'", "/app/b.rb:2:in `\nabaca: forged'"])
      [{}, { pid: true }, { format: :json }].each do |form|
        text = logged(**form) { |log| log.app_error(error, nil) }
        text.each_line(chomp: true) { |line| assert_clean(line, bytes) }
        refute_match(/^(\[\d+\] )?abaca: forged/, text)
      end
    end
    odd = "x\xff".dup.force_encoding("UTF-7")
    assert_includes logged { |log| log.info(odd) }, 'x\xFF'
  end

  def test_every_byte_in_json
    BYTES.each do |byte|
      text = "/x#{byte}y".b
      line = logged(format: :json) { |log| log.app_error(RuntimeError.new("x"), REQUEST.merge("PATH_INFO" => text)) }
      assert_equal 1, line.count("\n"), byte.inspect
      assert_clean(line, byte)
      assert line.ascii_only?
      assert_equal text.force_encoding(Encoding::UTF_8).scrub("\u{FFFD}"), JSON.parse(line).fetch("url.path")
    end
    assert_equal "\u{1f600}", objects { |log| log.info("\u{1f600}") }.first.fetch("message")
  end

  def test_an_error_is_one_object
    error = raised("first\nsecond")
    object, = objects { |log| log.app_error(error, REQUEST) }

    assert_match(/\A\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z\z/, object.fetch("time"))
    assert_equal "error in the app: ArgumentError: first\nsecond (GET /a)", object.fetch("message")
    assert_match(/forms_test\.rb:\d+/, object.fetch("exception.stacktrace"))
    assert_equal %w[error ArgumentError GET /a],
                 object.values_at("level", "exception.type", "http.request.method", "url.path")
    refute object.key?("pid")
  end

  def test_other_events_as_json
    lines = objects(level: :debug) do |log|
      log.debug("d")
      log.info("i")
      log.warn("w")
      log.stall(0.5, REQUEST, "app.rb:1", false)
      log.dump("=== 1\n  two\n===")
    end

    assert_equal %w[debug info warn warn info], lines.map { |line| line.fetch("level") }
    assert_equal %w[d i w], lines.first(3).map { |line| line.fetch("message") }
    assert_match(/\Aapp\.rb:1\n/, lines[3].fetch("code.stacktrace"))
    assert_equal ["=== 1", "two\n==="], lines[4].values_at("message", "details")
  end

  def test_a_dump_as_text_stays_as_it_is
    assert_equal "=== 1\n  two\n===\n", logged(level: :error) { |log| log.dump("=== 1\n  two\n===") }
  end

  def test_the_process_in_each_line
    text = logged(pid: true) do |log|
      log.info("one")
      log.app_error(raised("two"), nil)
    end
    assert_operator text.lines.size, :>, 2
    assert(text.lines.all? { |line| line.start_with?("[#{Process.pid}] ") }, text)
    assert_equal [Process.pid], objects(pid: true) { |log| log.info("one") }.map { |line| line.fetch("pid") }
    assert_equal "<one>\n", logged(pid: true, formatter: ->(line) { "<#{line}>" }) { |log| log.info("one") }
  end

  def test_unknown_forms
    assert_raises(Abaca::ConfigError) { Abaca::Log.new(format: :xml) }
    error = assert_raises(Abaca::ConfigError) { Abaca::Config.new({ log_format: "xml" }) }
    assert_equal 'log_format: :text or :json is needed, not "xml"', error.message
    assert_equal %i[warn json], Abaca::Config.new({ log_level: "warn", log_format: "json" }).to_h
                                             .values_at(:log_level, :log_format)
  end
end
