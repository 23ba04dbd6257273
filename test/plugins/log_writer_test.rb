# frozen_string_literal: true

# also: rubies

require "test_helper"
require "abaca"

# What plugins and gems may call on a log writer: that of the launcher, and one of Puma::LogWriter without the gem puma.
class PluginsLogWriterTest < Minitest::Test
  Request = Struct.new(:env)
  REQUEST = Request.new({ "REQUEST_METHOD" => "GET", "PATH_INFO" => "/up" }).freeze

  # What each error leaves in the log.
  ERRORS = ["HTTP connection error: gone (IOError) in GET /up", "later: gone (IOError)",
            "HTTP parse error: gone (IOError) in GET /up", "TLS error of ::1: gone (IOError)",
            "TLS error: gone (IOError)", "Unknown error: gone (IOError)", "late: gone (IOError) in GET /up"].freeze

  # A connection that has no address any more.
  GONE = Class.new { def peeraddr = raise(Errno::ENOTCONN) }
  private_constant :GONE

  def setup
    super
    Abaca::PumaNames.define
    @out = StringIO.new
    @err = StringIO.new
  end

  def log(**options) = @log ||= Abaca::Log.new(@out, @err, **options)

  def of_the_launcher(**options) = Abaca::Launcher::Plugins::LogWriter.new(log(**options))

  def written
    @log&.flush
    [@out, @err].map { |io| io.string.lines(chomp: true) }
  end

  def report(writer)
    error = IOError.new("gone")
    writer.connection_error(error, REQUEST)
    writer.connection_error(error, nil, "later")
    writer.parse_error(error, REQUEST)
    writer.ssl_error(error, Struct.new(:peeraddr).new(["AF_INET6", 1, "::1", "::1"]))
    writer.ssl_error(error, GONE.new)
    writer.unknown_error(error)
    writer.unknown_error(error, REQUEST, "late")
  end

  def test_errors_go_to_the_log
    report(of_the_launcher)
    assert_equal [[], ERRORS.map { |line| "abaca: #{line}" }], written
  end

  def test_errors_go_to_the_second_stream
    report(Puma::LogWriter.new(@out, @err))
    assert_equal [[], ERRORS], written
  end

  # Some are only worth a line for whoever looks for a mistake; some have no exception.
  def test_errors_for_debugging
    silent = [of_the_launcher, Puma::LogWriter.new(@out, @err, env: {})]
    silent.each { |writer| writer.debug_error(IOError.new("gone"), REQUEST, "odd") }
    assert_equal [[], []], written
    @log = nil
    loud = [of_the_launcher(level: :debug), Puma::LogWriter.new(@out, @err, env: { "PUMA_DEBUG" => "1" })]
    loud.each do |writer|
      writer.debug_error(IOError.new("gone"), REQUEST, "odd")
      writer.debug_error(nil)
    end
    assert_equal [["% odd: gone (IOError) in GET /up", "% an error"] * 2, []].map(&:sort), written.map(&:sort)
  end

  # Lines of the plugins go to a logger and through a formatter that one of them sets, until it takes these away.
  def test_a_logger_and_a_formatter
    [of_the_launcher, Puma::LogWriter.new(@out, @err)].each do |writer|
      assert_nil writer.custom_logger
      assert_equal "same", writer.formatter.call("same")
      writer.custom_logger = logger = StringIO.new
      writer.formatter = ->(line) { "[web] #{line}" }
      writer.log("to the logger")
      writer.custom_logger = Object.new # which cannot write
      writer.log("to the log")
      assert_equal "[web] to the logger\n", logger.string
    end
    assert_equal [["[web] to the log"] * 2, []], written
  end

  # The logger of the configuration file has these lines already.
  def test_the_logger_of_the_file
    logger = StringIO.new
    writer = Abaca::Launcher::Plugins::LogWriter.new(Abaca::Log.new(logger, @err).tap { |log| @log = log },
                                                     logger:)
    assert_same logger, writer.custom_logger
    writer.log("once")
    assert_equal [[], []], written
    assert_equal "once\n", logger.string
  end
end
