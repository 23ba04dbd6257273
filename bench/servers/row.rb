# frozen_string_literal: true

require_relative "field"

module Bench
  # What the tables of a benchmark share: their servers, their rounds and their results. A subclass says which servers
  # take part (`settings`), what a turn is (`measure`) and how it is shown (`columns`, `cells`).
  class Row
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
      @nice = nice ? Machine.prefer(nice) : []
      logs = "#{self.class.name.split("::")[1].downcase}-#{name}"
      @field = Field.new(settings: settings, ruby: ruby, name: logs, cpu: pinned ? 0 : nil, **field)
    end

    # @return [String] as given to --rows
    def name = self.class.name.split("::").last.downcase

    # Each turn has a server of its own, so that none idles beside the one that is measured.
    def run
      @field.rounds(@rounds, "#{name}, Ruby #{@ruby.version}") { |entry| turn(entry) }
    end

    # @return [String] a table
    def render
      compared = compared_figures.to_h { |figure| [figure, figure] }
      "#{title} (Ruby #{@ruby.version})\n\n#{@field.render(*columns, **compared) { |turns| cells(turns) }}"
    end

    # @return [Hash] for the results file
    def to_h = { row: name, ruby: @ruby.description, **@field.to_h }

    private

    def turn(entry) = alone(entry) { measure(entry) }

    def alone(entry, &)
      @field.alone(entry, app: app, env: env, prefix: @nice, right: ->(port) { right?(port) }, &)
    end

    # The path of a config.ru.
    def app = File.join(DIR, "apps", "modes.ru")

    # Whether the server answers.
    def right?(port) = Probe.get(port: port, path: "/hello")&.body == "Hello World\n"

    # Variables for the app.
    def env = {}

    # Figures of a turn that are compared with another checkout's.
    def compared_figures = []

    # What a client in C prints. The block talks to one that awaits lines.
    def figures(program, *words, limit: 120, &talk)
      Client.figures(program, *words, limit: limit, prefix: [*@nice, *(["taskset", "-c", "1"] if @pinned)], &talk)
    end

    def median(turns, field) = Statistics.median(turns.filter_map(&field))
    def milliseconds(microseconds) = microseconds && (microseconds / 1000.0).round(1)
  end
end
