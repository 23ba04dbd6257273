# frozen_string_literal: true

module Bench
  # What a run says of itself, in its file and below its tables: which rows got a figure, which did not and why, and
  # what the machine did meanwhile. A turn is *disturbed* when others, or the hypervisor, had more than DISTURBED of a
  # processor. A client that was busy for more than CEILING of its time is at its limit: requests a second are its own.
  class Account
    DISTURBED = 0.10
    CEILING = 0.90
    MARKS = { limit: "*", disturbed: "~" }.freeze
    TEXTS = { limit: "*: the client was busy all the time: requests/s are its limit",
              disturbed: "~: most turns of this row were disturbed" }.freeze
    OURS = /\Aabaca\b/

    # `reason`, if it has failed; `sights` of its turns; `clients`, how busy the client was in each.
    Row = Struct.new(:row, :name, :ours, :reason, :sights, :clients, keyword_init: true) do
      def disturbed = sights.each_index.select { |turn| Account.disturbed?(sights[turn]) }
      def limited? = clients.compact.any? && Statistics.median(clients.compact) >= CEILING

      # What a table shows beside the name.
      def marks = [(:limit if limited?), (:disturbed if disturbed.size * 2 > sights.size)].compact

      def to_h
        { row: row, name: name, ours: ours, reason: reason, turns: sights.size,
          disturbed: disturbed.map { |turn| turn + 1 }, steal: sights.map(&:steal), others: sights.map(&:others),
          client: (clients if clients.any?), client_at_its_limit: (true if limited?) }.compact
      end
    end

    # @param sight [Witness::Sight]
    # @return [Boolean]
    def self.disturbed?(sight) = [sight.steal, sight.others].max > DISTURBED

    def initialize
      @rows = {}
      @load = Witness.load
      @whole = Witness.new
    end

    # Watches the machine and the client while the block measures.
    #
    # @param row [String] of the benchmark: a load, a table
    # @param name [String] who has its turn
    # @param ours [Boolean] whether that is Abaca
    # @return what the block returns
    def turn(row, name, ours: OURS.match?(name))
      @client = nil
      witness = Witness.new
      value = yield
      found = row(row, name, ours)
      found.sights << witness.stop
      found.clients << @client
      value
    end

    # Watches how busy a client is: this process, and those that it starts and that end in the block.
    # @return what the block returns
    def client
      begun = Clock.now
      before = used
      value = yield
      share = ((used - before) / [Clock.now - begun, 0.001].max).round(2)
      @client = [@client, share].compact.max
      value
    end

    # Notes that somebody has no figure. What it has given before does not count.
    def absent(row, name, reason, ours: OURS.match?(name))
      row(row, name, ours).reason = reason
    end

    # @return [String] for the name in a table: whether the client was at its limit, and most turns disturbed
    def mark(row, name)
      found = @rows[[row, name]] or return ""
      marks = found.marks
      marks.empty? ? "" : " #{MARKS.values_at(*marks).join}"
    end

    # @return [Boolean] whether nothing was measured
    def empty? = @rows.empty?

    # @return [String] lines to stand below the tables
    def summary
      sights = @rows.values.flat_map(&:sights)
      return "no turn has a figure" if sights.empty?

      disturbed = @rows.values.sum { |row| row.disturbed.size }
      line = "#{sights.size} turns, #{disturbed} disturbed (others had up to #{sights.map(&:others).max} of a " \
             "processor, the hypervisor up to #{sights.map(&:steal).max}); load #{@load} before, #{Witness.load} after"
      [line, *legend].join("\n")
    end

    # @return [Hash] for the results file
    def to_h
      { load_before: @load, load_after: Witness.load, **@whole.stop.to_h, disturbed_above: DISTURBED,
        rows: @rows.values.map(&:to_h) }
    end

    private

    def row(row, name, ours)
      @rows[[row, name]] ||= Row.new(row: row, name: name, ours: ours, sights: [], clients: [])
    end

    # Seconds of this process and of those that have ended.
    def used = Process.times.sum

    def legend
      TEXTS.values_at(*(@rows.values.flat_map(&:marks) & MARKS.keys)).compact
    end
  end

  # @return [Account] of this run
  def self.account = @account ||= Account.new
end
