# frozen_string_literal: true

module Abaca
  class Launcher
    class Plugins
      # Puma::LogWriter's methods, for plugins: they write into the server's log. An error does not end the process.
      class LogWriter
        include PumaErrors

        # @return [#call] makes the text of a line
        attr_accessor :formatter
        # @return [#write, nil] that of the configuration file. Another one gets the lines of this object, and not those
        #   of the server
        attr_accessor :custom_logger

        # @param log [Log]
        # @param logger [#write, nil] that gets what the log writes
        def initialize(log, logger: nil)
          @log = log
          @custom_logger = @logger = logger
          @formatter = :itself.to_proc
        end

        # A line.
        def log(text)
          lines(format(text)) { |line| own_logger? ? @custom_logger.write("#{line}\n") : @log.info(line) }
        end
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

        # @return [IO]
        def stdout = $stdout

        # @return [IO]
        def stderr = $stderr

        # @return [String] the line for a text
        def format(text) = @formatter.call(text)

        private

        alias report error

        def own_logger? = !@custom_logger.equal?(@logger) && @custom_logger.respond_to?(:write)

        def lines(text, &) = text.to_s.each_line(chomp: true, &)
      end
    end
  end
end
