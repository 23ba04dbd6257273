# frozen_string_literal: true

require "io/wait"

module Abaca
  module TLS
    # The certificates of a process that the command has started: read before it forks, read anew when somebody asks or
    # a file has changed, and given to the workers. A fault while it runs is a line in the log, and what there is stays.
    class Keeper
      # Seconds between two looks at the files.
      PAUSE = 60
      private_constant :PAUSE

      # @param config [Config]
      # @param log [Log]
      # @param folder [String] where relative paths begin
      # @param pause [Numeric] seconds between two looks
      def initialize(config, log, folder: Dir.pwd, pause: PAUSE)
        @log = log
        @pause = pause
        @binds = config.binds.select(&:tls)
        @sources = {}.compare_by_identity # by Config::TLS
        @binds.each { |bind| @sources[bind.tls] = source(bind, config, folder) }
        @secret = Secret.new(config[:tls_ticket_key_file], folder:, place: config.place(:tls_ticket_key_file)) if any?
        @expiry = Expiry.new(log)
        @lock = Mutex.new
        @fault = nil # the last one, until all is well
        @seen = 0
      end

      # @return [Boolean] whether there is TLS
      def any? = @binds.any?

      # Reads everything for the first time.
      #
      # @param shared [Boolean] whether there will be workers
      # @return [self]
      # @raise [ConfigError]
      def read(shared: false)
        return self unless any?

        read_all
        @shelf = Shelf.new if shared
        @expiry.look(contexts)
        self
      rescue SystemCallError => e
        raise ConfigError, "no memory for certificates that workers share: #{e.message}"
      end

      # Finds what #read would fail at, but makes nothing.
      #
      # @return [Array<String>] a line for each certificate
      # @raise [ConfigError]
      def check
        return [] unless any?

        @secret.bytes
        @sources.values.filter_map(&:check).flat_map(&:certificates).uniq.map do |one|
          "certificate #{one[:label]}: #{one[:names].join(', ')}; #{one[:key]}; until #{one[:not_after].getutc}"
        end
      end

      # In the process that serves: loads Ruby's library where apps will see certificates of clients.
      #
      # @param settings [Config::TLS] of a place
      # @return [TLSContext]
      def context_of(settings)
        require "openssl" if settings.verifies?
        @sources.fetch(settings).context
      end

      # @return [Array<TLSContext>]
      def contexts = @sources.values.filter_map(&:context)

      # @return [Array<Hash{Symbol => Object}>] see Expiry.figures
      def figures = Expiry.figures(contexts)

      # --- in the one process, or the master ---

      # Looks each minute, and whenever #ask says so, on a thread of its own.
      #
      # @yieldparam old [TLSContext] that is used no more
      # @yieldparam new [TLSContext] in its place
      def watch(&replace)
        return unless any?

        @replace = replace
        @reader, @writer = IO.pipe
        @thread = Thread.new { loop { await } }
        @thread.name = "abaca certificates"
      end

      # Everything shall be read anew, soon. A trap handler may call it.
      def ask
        @writer&.write_nonblock(".", exception: false)
      rescue IOError, Errno::EPIPE
        nil # the process ends
      end

      # Reads everything anew, now.
      #
      # @raise [ConfigError] then nothing has changed, and the log has the same line
      def reload
        @fault = nil
        renew
      end

      # Idempotent.
      def close
        @thread&.kill&.join
        [@reader, @writer].each { |io| io&.close }
        @shelf&.close
      end

      # --- in a worker ---

      # Lets go of what is the master's.
      def forget
        [@reader, @writer].each { |io| io&.close }
        @thread = @writer = nil
      end

      # Takes what the master has read since.
      #
      # @yield as #watch does
      def follow
        return if @shelf.nil? || @shelf.version == @seen

        version, all = @shelf.take
        return unless version

        @seen = version
        @sources.values.zip(all) { |source, options| yield(*source.adopt(options)) }
      rescue StandardError => e # or the worker's heart would stop
        @log.error("the certificates stay as they are: #{e.message}")
      end

      private

      # Places with a port of the kernel's choice may have the same URL, but not the same tickets.
      def source(bind, config, folder)
        name = bind.to_s
        name = "#{name} #{@sources.size}" if @sources.each_value.any? { |one| one.name == name }
        Source.new(bind.tls, name:, host: bind.host, place: bind.place, folder:,
                             certificates: config[:certificates], developing: config.developing?)
      end

      # Checks all before one changes.
      def read_all
        secret = @secret.bytes
        readings = @sources.transform_values { |source| source.read(secret) }
        readings.map { |settings, reading| @sources.fetch(settings).keep(reading) }
      end

      # A child that is forked meanwhile has the new ones, or finds them there.
      def publish
        return unless @shelf

        @shelf.put(@sources.values.map(&:options))
        @seen = @shelf.version
      end

      # A fault is told once, however often it is met.
      def renew
        @lock.synchronize do
          pairs = read_all
          publish
          pairs.each { |pair| @replace&.call(*pair) }
          @fault = nil
        end
        @log.info("* Certificates reloaded: #{names}")
      rescue ConfigError => e
        @log.error("the certificates stay as they are: #{e.message}") unless e.message == @fault
        @fault = e.message
        raise
      end

      # What has failed is tried again: a file may get its rights, or a command its password, and no file changes.
      def look(asked)
        if asked then reload
        elsif @fault || @sources.each_value.any?(&:stale?) then renew
        end
      rescue ConfigError
        nil # is logged
      ensure
        @expiry.look(contexts)
      end

      def await
        asked = @reader.wait_readable(@pause)
        @reader.read_nonblock(4096, exception: false) if asked
        look(asked)
      rescue StandardError => e
        @log.failure("the certificates stay as they are", e)
        sleep(1)
      end

      def names = contexts.flat_map(&:certificates).uniq.map { |one| one[:names].first || one[:label] }.join(", ")
    end
  end
end
