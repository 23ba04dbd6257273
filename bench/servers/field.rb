# frozen_string_literal: true

module Bench
  # The servers of one comparison, all of them running, each on its own port.
  class Field
    # `options` are those of the server's `command`.
    Entry = Struct.new(:label, :server, :options, :port, :child, keyword_init: true)

    START = 30 # seconds until a server must answer

    # @return [Array<Entry>] those that run
    attr_reader :entries
    # @return [Hash] label => reason, for those that could not take part
    attr_reader :absent

    # @param settings [Array<(String, Hash, String)>] names of the catalog, options of their `command`, and what the row
    #   is called, made of the two when it is nil
    # @param only [Array<String>, nil] names of the catalog
    # @param name [String] begins the names of the logs
    # @param against [Against, nil] the checkout that has a row after each of Abaca's
    # @raise [ArgumentError] for an unknown name
    def initialize(settings:, only:, name:, ruby: Ruby.here, against: nil)
      servers = Catalog.pick((only || settings.map(&:first)).uniq, ruby: ruby, against: against)
      @name = name
      @absent = {}
      @entries = settings.flat_map do |wanted, options, label|
        servers.select { |server| server.name.split.first == wanted }.map do |server|
          label = (label || label(wanted, options)).sub(wanted, server.name)
          Entry.new(label: label, server: server, options: options)
        end
      end
    end

    # Starts every server; those that cannot are taken out.
    #
    # @param size [Integer] bytes of the body
    # @param env [Hash] variables on top of the server's own
    # @param cpu [Integer, nil] to pin to
    # @yieldparam port [Integer]
    # @yieldreturn [Boolean] whether the server gives the right answer
    def start(size:, env: {}, cpu: nil, **options, &right)
      @entries = @entries.select { |entry| start_one(entry, size, env, cpu, options, &right) }
    end

    # Takes out one that has failed.
    def drop(entry, reason)
      entry.child&.stop
      @absent[entry.label] = reason
      @entries -= [entry]
    end

    # @return [Array<Entry>] in an order that alternates from round to round
    def turn(round) = round.even? ? @entries : @entries.reverse

    # @return [Hash] label => version, of those that run
    def versions = @entries.to_h { |entry| [entry.label, entry.server.version] }

    def stop = @entries.each { |entry| entry.child&.stop }

    private

    def label(server, options)
      [server, *options.map { |key, value| value == true ? key : "#{value} #{key}" }].join(" ")
    end

    def start_one(entry, size, env, cpu, options)
      entry.server.prepare
      entry.port = Ports.free
      command = entry.server.command(port: entry.port, size: size, **options, **entry.options)
      entry.child = Child.new(command, name: "#{@name}-#{entry.label.tr(" ", "-")}", cpu: cpu, files: Files.raise_limit,
                                       env: entry.server.env(size: size).merge(env))
      entry.child.wait_ready(seconds: START) { yield entry.port }
      true
    rescue Unavailable, Failed => e
      entry.child&.stop
      @absent[entry.label] = e.message
      false
    end
  end
end
