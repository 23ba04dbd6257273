# frozen_string_literal: true

module Abaca
  class Config
    class DSL
      # What is logged, and where.
      module Logging
        # No access log.
        def quiet(which = true) # rubocop:disable Style/OptionalBooleanParameter -- Puma's signature
          @abaca.set(:log_requests, !which)
        end

        # Takes each line before it is written, and returns the line to write.
        #
        #   log_formatter { |line| "[web] #{line}" }
        def log_formatter(&block)
          raise ArgumentError, "log_formatter: a block is needed" unless block

          @abaca.set(:formatter, block)
        end

        # What a line of the access log looks like: a format's name, or a block that gets an AccessLog::Request and
        # returns the line, or nil for none.
        #
        #   access_log_format { |request| "#{request.status} #{request.path}" unless request.path == "/up" }
        def access_log_format(format = nil, &block)
          raise ArgumentError, "access_log_format: either a format or a block is needed" unless format.nil? ^ block.nil?

          @abaca.set(:access_log_format, format || block)
        end

        # Receives the log instead of standard output; it needs `write`.
        def custom_logger(logger)
          raise ArgumentError, "custom_logger: #{logger.class} has no write" unless logger.respond_to?(:write)

          @abaca.set(:logger, logger)
        end

        # Sends standard output and standard error of the whole process to files. HUP reopens them. They are opened
        # when the process is in its `directory`, which may be set below or by a flag.
        def stdout_redirect(stdout = nil, stderr = nil, append = false) # rubocop:disable Style/OptionalBooleanParameter
          @abaca.set(:redirect, { stdout:, stderr:, append: })
        end
      end
    end
  end
end
