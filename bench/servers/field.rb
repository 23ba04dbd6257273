# frozen_string_literal: true

require_relative "catalog"

module Bench
  # The servers of one comparison, and what the rounds have given for each.
  class Field
    # `options` are those of the server's `command`; `boot` is the seconds until it gave the right answer.
    Entry = Struct.new(:label, :server, :options, :port, :child, :boot, keyword_init: true)

    START = 30 # seconds until a server must answer
    ANSWERS = ->(port) { Probe.get(port: port, seconds: 2)&.status == 200 }

    # @return [Array<Entry>] those that take part
    attr_reader :entries
    # @return [Hash] label => reason, for those that could not take part, or failed
    attr_reader :absent
    # @return [Hash] label => version
    attr_reader :versions
    # @return [Hash] label => Array, what its rounds have given
    attr_reader :turns

    # @param settings [Array<(String, Hash, String)>] names of the catalog, options of their `command`, and what the row
    #   is called, made of the two when it is nil
    # @param only [Array<String>, nil] names of the catalog
    # @param name [String] begins the names of the logs
    # @param cpu [Integer, nil] to pin them to
    # @param against [Against, nil] the checkout that has a row after each of Abaca's
    # @raise [ArgumentError] for an unknown name
    def initialize(name:, only: nil, settings: only.map { |server| [server, {}] }, ruby: Ruby.here, cpu: nil,
                   against: nil)
      @name = name
      @cpu = cpu
      @against = against
      @absent = {}
      @versions = {}
      @turns = Hash.new { |hash, label| hash[label] = [] }
      servers = Catalog.pick((only || settings.map(&:first)).uniq, ruby: ruby, against: against)
      @entries = settings.flat_map do |wanted, options, label|
        servers.select { |server| server.name.split.first == wanted }.map do |server|
          label = (label || label(wanted, options)).sub(wanted, server.name)
          Entry.new(label: label, server: server, options: options)
        end
      end
    end

    # Starts every server: see #launch.
    def start(**options) = each { |entry| launch(entry, **options) }

    # Runs the block for each server; one that fails in it is taken out, with what it has given so far.
    def each
      @entries.each { |entry| guard(entry) { yield entry } }
    end

    # @param size [Integer] bytes of the body
    # @param env [Hash] variables on top of the server's own
    # @param prefix [Array<String>] begins the command
    # @param right [#call] takes the port, and says whether the server gives the right answer
    # @param options [Hash] of the server's `command`
    # @raise [Unavailable, Failed]
    def launch(entry, size: 12, env: {}, prefix: [], right: ANSWERS, **options)
      entry.server.prepare
      entry.port = Ports.free
      command = entry.server.command(port: entry.port, size: size, **options, **entry.options)
      start = Clock.now
      entry.child = Child.new([*prefix, *command], name: "#{@name}-#{entry.label}".tr(" ", "-"), cpu: @cpu,
                                                   files: Files.raise_limit,
                                                   env: entry.server.env(size: size).merge(env))
      entry.child.wait_ready(seconds: START) { right.call(entry.port) }
      entry.boot = Clock.now - start
      @versions[entry.label] = entry.server.version
    end

    # Launches a server for the block alone.
    def alone(entry, **options)
      launch(entry, **options)
      yield
    ensure
      entry.child&.stop
    end

    # Gives every server its turn in each round, in an order that alternates, so that a disturbance of the machine does
    # not fall on the same one each time. What the block returns is kept.
    # @param before [Integer] rounds of the same title that have been
    def rounds(count, title = @name, before: 0)
      @row = title
      (before...(before + count)).each do |round|
        warn "#{title}: round #{round + 1}#{" of #{count}" if count > 1}"
        (round.even? ? @entries : @entries.reverse).each do |entry|
          guard(entry) { @turns[entry.label] << Bench.account.turn(title, entry.label) { yield(entry) } }
        end
      end
    end

    def stop = @entries.each { |entry| entry.child&.stop }

    # @param columns [Array<String>] headings after the first one
    # @param compared [Hash{Symbol => #to_proc}] figures of a turn for the ratios to another checkout
    # @yieldparam turns [Array] of a server
    # @yieldparam label [String]
    # @yieldreturn [Array] its cells
    # @return [String] a table of those that took part, and why others did not
    def render(*columns, **compared)
      table = Table.new(["", *columns])
      @turns.each do |label, turns|
        table.add("#{label}#{Bench.account.mark(@row, label)}", *yield(turns, label))
      end
      @absent.each { |label, reason| table.note(label, reason) }
      [table, @against&.render(@turns, **compared)].compact.join("\n")
    end

    # @return [Hash] for the results file
    def to_h = { versions: @versions, absent: @absent, turns: plain(@turns) }

    private

    # JSON has no structures.
    def plain(value)
      case value
      when Struct then plain(value.to_h)
      when Hash then value.transform_values { |one| plain(one) }
      when Array then value.map { |one| plain(one) }
      else value
      end
    end

    def guard(entry)
      yield
    rescue Unavailable, Failed => e
      entry.child&.stop
      @absent[entry.label] = e.message
      Bench.account.absent(@row || @name, entry.label, e.message)
      @entries -= [entry]
      @turns.delete(entry.label)
    end

    def label(server, options)
      [server, *options.map { |key, value| value == true ? key : "#{value} #{key}" }].join(" ")
    end
  end
end
