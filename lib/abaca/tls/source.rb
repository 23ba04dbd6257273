# frozen_string_literal: true

module Abaca
  module TLS
    # Where one listener's TLS comes from, and what it is now. What is read is checked before anything changes.
    class Source
      # What was read: texts for TLSContext.new, and the context that was made of them.
      Reading = Struct.new(:options, :context) do
        # Its options have keys.
        def inspect = "#<#{self.class}>"
        alias_method :to_s, :inspect
      end

      # @return [TLSContext, nil] nil until something is kept
      attr_reader :context
      # @return [Hash{Symbol => Object}, nil] what it was made of, for #adopt in another process
      attr_reader :options
      # @return [String] the listener's name
      attr_reader :name

      # @param settings [Config::TLS]
      # @param name [String] of the listener, as in the configuration: tickets are bound to it
      # @param host [String, nil] that a certificate of development is for
      # @param place [String, nil] file and line of the configuration
      # @param certificates [Array<Config::TLS::Certificate>] that all listeners have, besides their own
      # @param developing [Boolean] whether there may be a certificate of development
      # @param folder [String] where relative paths begin
      def initialize(settings, name:, host: nil, place: nil, certificates: [], developing: false, folder: Dir.pwd) # rubocop:disable Metrics/ParameterLists -- what a listener is made of
        @settings = settings
        @name = name
        @host = host
        @place = place
        @certificates = settings.certificates + certificates
        @developing = developing
        @folder = folder
      end

      # Reads and checks everything.
      #
      # @param secret [String] 32 bytes, from which the keys of tickets are derived
      # @return [Reading] for #keep
      # @raise [ConfigError] one sentence, with the place in the configuration
      def read(secret)
        @tried = stamps
        options = fetch.merge(ticket_secret: secret, name: @name)
        Reading.new(options, TLSContext.new(options))
      rescue ConfigError => e
        raise ConfigError, located(e.message)
      end

      # @param reading [Reading]
      # @return [Array(TLSContext, TLSContext)] the old one, perhaps nil, and the new one
      def keep(reading)
        old = @context
        @options, @context = *reading
        [old, @context]
      end

      # Takes what another process has read.
      #
      # @param options [Hash{Symbol => Object}] as of #options
      # @return [Array(TLSContext, TLSContext)] the old one and the new one
      # @raise [ConfigError]
      def adopt(options) = keep(Reading.new(options, TLSContext.new(options)))

      # Keys are nobody's to read.
      def inspect = "#<#{self.class} #{@name}>"
      alias to_s inspect

      # @return [Boolean] whether a file is not what it was when it was read last, or tried to
      def stale? = stamps != @tried

      # Finds what #read would fail at, but makes no certificate.
      #
      # @return [TLSContext, nil] nil for a certificate of development
      # @raise [ConfigError]
      def check
        return read("\0" * 32).context unless made?

        need_development
        nil
      rescue ConfigError => e
        raise ConfigError, located(e.message)
      end

      private

      # A certificate that comes from another line has that line's place.
      def located(message)
        return message if [@place, *@certificates.map(&:place)].any? { |place| place && message.start_with?(place) }

        [@place, @name[/\S+/], message].compact.join(": ")
      end

      # Whether its certificate is made.
      def made? = @certificates.empty? && @settings.context.nil?

      def fetch
        return FromOpenSSL.options(@settings) if @settings.context
        return Material.new(@settings, certificates: @certificates, folder: @folder).options unless made?

        need_development
        Material.new(@settings, certificates: [Development.certificate(@host)], folder: @folder).options
      end

      # As in Puma, a program that has loaded the gem wants it.
      def need_development
        return Development.need if @developing || defined?(::Localhost::Authority)

        raise ConfigError, "a certificate is needed: cert= and key="
      end

      def stamps
        paths = [@settings.ca, @settings.crl, *@certificates.flat_map { |one| [one.cert, one.key] }]
        paths.compact.to_h { |path| [path, stamp(File.expand_path(path, @folder))] }
      end

      # A link that leads elsewhere is another file.
      def stamp(path)
        stat = File.stat(path)
        [stat.dev, stat.ino, stat.size, stat.mtime.to_r]
      rescue SystemCallError => e
        e.errno
      end
    end
  end
end
