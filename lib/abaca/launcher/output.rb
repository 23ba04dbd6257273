# frozen_string_literal: true

module Abaca
  class Launcher
    # Where a process writes: the files of `stdout_redirect`, and its log.
    class Output
      # @param config [Config]
      # @param out [IO] takes banner and access log
      # @param err [IO] takes warnings and errors
      def initialize(config, out, err)
        @config = config
        @files = config[:redirect]
        @out = config[:logger] || out
        @err = err
      end

      # Redirects, and opens the log.
      #
      # @param pid [Boolean] whether several processes share it, so that each line needs the id of its own
      # @return [Log]
      # @raise [SystemCallError] if a file cannot be opened
      def open(pid: false)
        if @files
          @files.values_at(:stdout, :stderr).compact.each { |path| File.write(path, "") unless @files[:append] }
          redirect
        end
        @log = Log.new(@out, @err, level:, format: @config[:log_format], formatter: @config[:formatter], pid:)
                  .tap(&:prepare)
      end

      # Opens the files anew, after they were moved. A trap handler may call it.
      #
      # @return [Boolean] false when the output is not redirected
      def reopen
        return false unless @files

        redirect
        true
      rescue SystemCallError => e
        @log.warn("cannot reopen the log: #{e.message}")
        true
      end

      private

      def redirect
        { $stdout => @files[:stdout], $stderr => @files[:stderr] }.each do |io, path|
          next unless path

          io.reopen(path, "a")
          io.sync = true
        end
      end

      def level
        if @config[:silent] then :error
        elsif @config[:debug] then :debug
        else @config[:log_level]
        end
      end
    end
  end
end
