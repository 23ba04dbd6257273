# frozen_string_literal: true

# A page and its slots with contents that a test sets, in the shapes of Abaca::Page.
class FakePage
  FIGURES = { requests: 0, in_app: 0, waiting: 0, errors: 0, connections: 0, rejected: {} }.freeze

  TOTALS = { ended: 0, sums: {}, loops: { idle: 0.0, busy: 0.0, away: 0.0, stalled: 0.0 }, gc_time: 0.0,
             stalls: 0 }.freeze

  # All that a slot says is an attribute; what is left out is what an idle worker has.
  class Slot
    attr_accessor :index, :pid, :state, :phase, :started_at, :beat_age, :figures, :totals, :loops, :routes, :series,
                  :clients, :rows, :kept, :claims, :process, :events, :records

    def initialize(index: 0, **given)
      { index:, pid: 1000 + index, state: :serving, phase: 0, started_at: Time.now - 3600, beat_age: 0.2,
        figures: FIGURES, totals: TOTALS, loops: [], routes: [], series: [], clients: [], rows: [], kept: [],
        claims: 1, process: {}, events: [], records: {}, **given }.each { |key, value| public_send(:"#{key}=", value) }
    end

    def requests(most: nil)
      list = rows.sort_by { |row| -row[:age] }
      most ? list.first(most) : list
    end

    def history(width, most: nil) = records.fetch(width, []).last(most || 10_000)

    def request(id) = rows.find { |row| row[:id] == id }

    def tally
      waits = rows.group_by { |row| row.values_at(:state, :waits_for) }.map do |(state, target), found|
        [state, target, found.size, found.map { |row| row[:since] }.max]
      end
      sums = rows.map { |row| row[:sums] }.reduce({}) { |all, one| all.merge(one) { |_, a, b| a + b } }
      { sums:, states: rows.map { |row| row[:state] }.tally, waits: }
    end
  end

  # As the page writes them: what the screen makes of each.
  def request_lines(most:, numbers:, brief:)
    raise ArgumentError unless brief

    rows = slots.flat_map { |slot| slot.requests.map { |row| brief(slot, numbers, row) } }
    Abaca::Page::Line::Written.new(Abaca::Sight::JSON.line(rows.sort_by { |row| -row[:age] }.first(most)))
  end

  attr_reader :slots
  attr_accessor :events, :sums

  def initialize(*slots)
    # As in a cluster's, each number has a second slot.
    @slots = slots + slots.map { |slot| Slot.new(index: slot.index + slots.size, state: :empty, pid: nil, claims: 0) }
    @events = []
    @sums = FIGURES
  end

  private

  def brief(slot, numbers, row)
    { id: Abaca::Sight.id(slot.index, row[:id]), age: row[:age], worker: slot.index % numbers,
      **row.slice(:mode, :phase, :state, :waits_for, :since, :method, :path), client: row[:peer],
      route: row[:route] }.compact
  end
end
