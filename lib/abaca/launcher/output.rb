# frozen_string_literal: true

module Abaca
  class Launcher
    # Where a process writes: the files of `stdout_redirect`, and its log. Until it serves, lines of the log go to the
    # original output as well, since tools that start a server wait for them there.
    class Output
      # @param config [Config]
      # @param out [IO] takes banner and access log
      # @param err [IO] takes warnings and errors
      def initialize(config, out, err)
        @config = config
        @files = config[:redirect]
        @out = config[:logger] || out
        @err = err
        @originals = []
      end

      # Redirects, and opens the log.
      #
      # @param pid [Boolean] whether several processes share it, so that each line needs the id of its own
      # @return [Log]
      # @raise [SystemCallError] if a file cannot be opened
      def open(pid: false)
        if @files
          @files.values_at(:stdout, :stderr).compact.each { |path| File.write(path, "") unless @files[:append] }
          @originals = [original(@out, $stdout, @files[:stdout]), original(@err, $stderr, @files[:stderr])]
          redirect
        end
        @log = Log.new(@out, @err, level:, format: @config[:log_format], formatter: @config[:formatter], pid:)
        @log.echo(*@originals) if @originals.any?
        @log.tap(&:prepare)
      end

      # The boot has failed.
      #
      # @param error [ConfigError] which is told on `err`
      def failed(error)
        @log&.end_echo
        @originals[1]&.puts("abaca: #{error.message}")
      end

      # The process serves: from now on, lines go to the files alone.
      def booted
        @log.end_echo
        @originals.each { |io| io&.close }.clear
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

      # A copy of the stream that the file takes the place of; nil if none does, or the stream is that file already, as
      # after a restart.
      def original(used, stream, path)
        return if path.nil? || !used.equal?(stream) || File.identical?(stream, path)

        stream.dup.tap { |copy| copy.sync = true }
      end

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
