# frozen_string_literal: true

require "stringio"

# Puma, as gems see it.
module Puma
  # Lines to two streams, for plugins that write some by themselves. What a plugin gets from its launcher writes into
  # the server's log instead (Abaca::Launcher::Plugins::LogWriter).
  class LogWriter
    include Abaca::PumaErrors

    # @return [#write]
    attr_reader :stdout, :stderr
    # @return [#call] makes the text of a line
    attr_accessor :formatter
    # @return [#write, nil] gets the lines of #log in place of `stdout`
    attr_accessor :custom_logger

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
      @formatter = :itself.to_proc
      @debug = env.key?("PUMA_DEBUG")
    end

    # A line.
    def log(text)
      line = "#{format(text)}\n"
      @custom_logger.respond_to?(:write) ? @custom_logger.write(line) : write(line)
    end

    # Text as it is.
    def write(text) = @stdout.write(text)

    # @return [String] the line for a text
    def format(text) = @formatter.call(text)

    # @return [Boolean] whether #debug writes
    def debug? = @debug

    # A line if PUMA_DEBUG is set.
    def debug(text = nil) = (log("% #{block_given? ? yield : text}") if @debug)

    # A line of an error; the process ends, as with Puma.
    def error(text)
      report("ERROR: #{text}")
      exit 1
    end

    private

    def report(text) = @stderr.write("#{text}\n")
  end
end
