# frozen_string_literal: true

module Abaca
  class Launcher
    class Plugins
      # Puma::LogWriter's methods, for plugins: they write into the server's log. An error does not end the process.
      class LogWriter
        # @param log [Log]
        def initialize(log)
          @log = log
        end

        # A line.
        def log(text) = lines(text) { |line| @log.info(line) }
        alias write log

        # @return [Boolean] whether #debug writes
        def debug? = @log.debug?

        # A line at level debug.
        def debug(text = nil)
          return unless debug?

          lines(block_given? ? yield : text) { |line| @log.debug(line) }
        end

        # A line of an error.
        def error(text) = lines(text) { |line| @log.error(line) }

        # A line of an exception.
        def unknown_error(error, _request = nil, text = "Unknown error")
          error("#{text}: #{error.message} (#{error.class})")
        end

        # As #unknown_error, at level debug.
        def debug_error(error, _request = nil, text = "") = debug("#{text}: #{error.message} (#{error.class})")

        # @return [IO]
        def stdout = $stdout

        # @return [IO]
        def stderr = $stderr

        # @return [String] the line for a text
        def format(text) = text

        # @return [#call] the same
        def formatter = method(:format)

        private

        def lines(text, &) = text.to_s.each_line(chomp: true, &)
      end
    end
  end
end
