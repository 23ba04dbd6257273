# frozen_string_literal: true

require "stringio"

# Puma, as gems see it.
module Puma
  # Lines to two streams, for plugins that write some by themselves. What a plugin gets from its launcher writes into
  # the server's log instead (Abaca::Launcher::Plugins::LogWriter).
  class LogWriter
    # @return [#write]
    attr_reader :stdout, :stderr
    # @return [#call, nil] makes the text of a line
    attr_accessor :formatter

    class << self
      # @return [LogWriter] to the process's output
      def stdio(**) = new($stdout, $stderr)

      # @return [LogWriter] to two StringIO
      def strings(**) = new(StringIO.new, StringIO.new)

      # @return [LogWriter] to nowhere
      def null(**) = new(File.open(File::NULL, "w"), File.open(File::NULL, "w"))
    end

    # @param stdout [#write]
    # @param stderr [#write]
    def initialize(stdout, stderr, env: ENV)
      @stdout = stdout
      @stderr = stderr
      @debug = env.key?("PUMA_DEBUG")
    end

    # A line.
    def log(text) = write("#{format(text)}\n")

    # Text as it is.
    def write(text) = @stdout.write(text)

    # @return [String] the line for a text
    def format(text) = @formatter ? @formatter.call(text) : text

    # @return [Boolean] whether #debug writes
    def debug? = @debug

    # A line if PUMA_DEBUG is set.
    def debug(text = nil) = (log("% #{block_given? ? yield : text}") if @debug)

    # A line of an error; the process ends, as with Puma.
    def error(text)
      @stderr.write("ERROR: #{text}\n")
      exit 1
    end

    # A line of an exception.
    def unknown_error(error, _request = nil, text = "Unknown error") = @stderr.write("#{text}: #{error.inspect}\n")
  end
end
