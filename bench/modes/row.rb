# frozen_string_literal: true

module Bench
  module Modes
    APP = File.join(DIR, "apps", "modes.ru")
    HEALTH = "/livez"

    # What every table of the modes shares: its servers, its rounds and their results. A subclass says which servers
    # take part (`settings`), what a turn is (`measure`) and how it is shown (`columns`, `cells`).
    class Row
      Failure = Struct.new(:label, :reason, keyword_init: true)

      # @param ruby [Ruby] of the servers
      # @param rounds [Integer]
      # @param quick [Boolean] shorter, for a look
      # @param pinned [Boolean] server on CPU 0, client on CPU 1
      # @param nice [Integer, nil] of both, on a machine that others use
      # @param field [Hash] `only` and `against` of a Field
      def initialize(ruby:, rounds:, quick:, pinned:, nice:, **field)
        @ruby = ruby
        @rounds = rounds
        @quick = quick
        @pinned = pinned
        @nice = nice ? ["nice", "-n", nice.to_s] : []
        @turns = Hash.new { |hash, key| hash[key] = [] }
        @failures = {}
        @against = field[:against]
        @field = Field.new(settings: settings, ruby: ruby, name: "modes-#{name}", **field)
      end

      # @return [String] as given to --rows
      def name = self.class.name.split("::").last.downcase

      # One server after the other, in interleaved rounds; each turn has a server of its own, so that none
      # idles beside the one that is measured.
      def run
        @rounds.times do |round|
          warn "#{name}, Ruby #{@ruby.version}: round #{round + 1} of #{@rounds}"
          @field.turn(round).each { |entry| take_turn(entry) }
        end
      end

      # @return [String] a table
      def render
        table = Table.new(["", *columns])
        @field.entries.each { |entry| table.add(entry.label, *cells(@turns[entry.label])) if @turns.key?(entry.label) }
        @failures.each { |label, reason| table.note(label, reason) }
        compared = @against&.render(@turns, **compared_figures.to_h { |figure| [figure, figure] })
        "#{title} (Ruby #{@ruby.version})\n\n#{table}\n#{compared}"
      end

      # @return [Hash] for the results file
      def to_h
        { row: name, ruby: @ruby.description, versions: @versions, failures: @failures,
          turns: @turns.transform_values { |turns| turns.map(&:to_h) } }
      end

      private

      def take_turn(entry)
        return if @failures.key?(entry.label)

        start(entry)
        @turns[entry.label] << measure(entry)
      rescue Unavailable, Failed => e
        @failures[entry.label] = e.message
        @turns.delete(entry.label)
      ensure
        entry.child&.stop
      end

      def start(entry)
        entry.server.prepare
        entry.port = Ports.free
        command = entry.server.command(port: entry.port, size: 12, app: APP, **entry.options)
        options = { cpu: @pinned ? 0 : nil, files: Files.raise_limit, env: entry.server.env(size: 12).merge(env) }
        entry.child = Child.new([*@nice, *command], name: "modes-#{entry.label.tr(" ", "-")}", **options)
        entry.child.wait_ready(seconds: Field::START) { Probe.get(port: entry.port, path: "/hello", seconds: 1) }
        (@versions ||= {})[entry.label] = entry.server.version
      end

      # Variables for the app.
      def env = {}

      # What a client in C prints: name=number pairs, on one line.
      def figures(program, *words, limit: 120)
        command = [*@nice, *(["taskset", "-c", "1"] if @pinned), Compiler.program("clients/#{program}.c"), *words]
        text = Timeout.timeout(limit) { IO.popen(command, err: %i[child out], &:read) }
        found = text.lines.last.to_s.scan(/(\w+)=(-?\d+)/).to_h { |key, number| [key.to_sym, number.to_i] }
        found.empty? ? raise(Failed, "#{program}: #{text.strip}") : found
      rescue Timeout::Error
        raise Failed, "hangs: #{program} did not end within #{limit} s"
      end

      def median(turns, field) = Statistics.median(turns.filter_map(&field))
      def milliseconds(microseconds) = microseconds && (microseconds / 1000.0).round(1)
    end
  end
end
