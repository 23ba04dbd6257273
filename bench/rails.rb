# frozen_string_literal: true

# A Rails application in production, with SQLite and with PostgreSQL: a list, a form, 50 ms of waiting. See README.md.
# Usage: ruby bench/rails.rb --help

require_relative "support/bench"
require_relative "servers/field"
require_relative "databases/stores"
require_relative "rails/rails_gems"

module Bench
  # Each turn has a server of its own, which is asked for one page after another.
  class RailsContest
    FOLDER = File.join(DIR, "apps", "rails")
    CONNECTIONS = 64
    POOL = 70 # connections to the database, enough for all
    WARM_UP = 3 * CONNECTIONS # answers of a page before it is measured: each connection to the database is new, too
    WARM_UPS = 10 # times that a server is asked for them, each time for a second
    Page = Struct.new(:name, :path, :form, :warm, keyword_init: true)
    # The second one needs nothing that the first one has not warmed.
    PAGES = [Page.new(name: "list", path: "/parcels"),
             Page.new(name: "wait", path: "/wait", warm: true),
             Page.new(name: "form", path: "/parcels", form: "parcel[recipient]=Ada&parcel[weight]=70")].freeze
    SETTINGS = [["abaca", {}], ["puma", { threads: 3 }], ["puma", { threads: 5 }], ["falcon", {}]].freeze
    ON_FIBERS = %w[abaca falcon].freeze
    Turn = Struct.new(:per_second, :p50, :p99, :cpu, :resident, keyword_init: true)

    # A file; the gem brings SQLite. Transactions begin with its lock, as Rails 8 has it on its own.
    class Sqlite < Stores::Store
      SETTINGS = "pool=#{POOL}&timeout=5000&default_transaction_mode=immediate".freeze

      def url = "sqlite3:#{File.join(@folder, "bench.db")}?#{SETTINGS}"

      private

      def make = nil
    end

    class Postgresql < Stores::Postgresql
      def url = "postgresql://#{NAME}@127.0.0.1:#{@port}/#{NAME}?pool=#{POOL}"
    end

    DATABASES = { "sqlite" => Sqlite, "postgresql" => Postgresql }.freeze

    def initialize(ruby:, databases:, rounds:, seconds:, pinned:, **options)
      @ruby = ruby
      @databases = DATABASES.slice(*databases)
      @rounds = rounds
      @seconds = seconds
      @options = { ruby: ruby, cpu: pinned ? 0 : nil, **options }
      @prefix = pinned ? %w[taskset -c 1] : []
      @fields = {}
      @absent = {}
      @failures = {} # [page and database, server] => reason
    end

    def run
      @gems = RailsGems.of(@ruby)
      @gems.install
      @databases.each { |name, kind| measure_database(name, kind) }
    end

    # @return [String] a table for each database
    def render
      tables = @fields.map do |name, field|
        columns = PAGES.flat_map { |page| ["#{page.name}: 1/s", "p50 ms", "p99 ms", "CPU µs", "to abaca's"] }
        "Rails #{@gems.version}, #{name}, #{CONNECTIONS} connections (Ruby #{@ruby.version})\n\n" \
          "#{field.render(*columns, "RSS MB") { |turns| cells(field, turns) }}"
      end
      reasons = [*@failures.map { |key, reason| "#{key.join(", ")}: #{reason}" },
                 *@absent.map { |name, reason| "#{name}: #{reason}" }]
      [*tables, *reasons].join("\n")
    end

    # @return [Hash] for the results file
    def to_h
      { rails: @gems.version, connections: CONNECTIONS, pool: POOL, absent: @absent,
        failures: @failures.transform_keys { |key| key.join(", ") },
        parts: @fields.transform_values(&:to_h) }
    end

    private

    def measure_database(name, kind)
      env = @gems.production
      store = kind.new(env)
      store.start
      env["DATABASE_URL"] = store.url
      fill(env)
      measure_servers(name, env)
    rescue Unavailable, Failed => e
      @absent[name] = e.message
      Bench.account.absent("rails", "abaca, #{name}", e.message)
    ensure
      store&.stop
    end

    def fill(env)
      command = @ruby.command(File.join(DIR, "rails", "schema.rb"))
      text, status = Open3.capture2e(Child::CLEAN.merge(env), *command, chdir: ROOT)
      raise Failed, (text[/^.*error.*$/i] || text.lines.last.to_s).strip unless status.success?
    end

    # The first server's pages are what the others must answer, too.
    def measure_servers(name, env)
      field = @fields[name] = Field.new(settings: SETTINGS, name: "rails-#{name}", **@options)
      field.rounds(@rounds, name) do |entry|
        fibers = ON_FIBERS.include?(entry.server.name.split.first)
        isolated = env.merge("ISOLATION" => fibers ? "fiber" : "thread")
        right = ->(port) { Probe.get(port: port, path: "/wait")&.body == "Recipient 0\n" }
        field.alone(entry, app: File.join(FOLDER, "config.ru"), env: isolated, right: right) do
          compare(name, entry.port)
          PAGES.to_h { |page| [page.name, try(entry, page, name)] }
        end
      end
    end

    # @raise [Failed] if a page is another one than the first server's
    def compare(name, port)
      ["/parcels", "/parcels/new"].each do |path|
        answer = Probe.get(port: port, path: path)
        raise Failed, "#{path} has status #{answer&.status}" unless answer&.status == 200

        # Rows that are added have other names and numbers.
        shape = answer.body.gsub(/Ada|Recipient \d+|[\d,]/, "")
        (@shapes ||= {})[[name, path]] ||= shape
        raise Failed, "#{path} is another page" unless @shapes[[name, path]] == shape
      end
    end

    # nil for a page at which the server fails, now or before: the others count.
    def try(entry, page, database)
      key = ["#{page.name}, #{database}", entry.label]
      measure(entry, page) unless @failures.key?(key)
    rescue Failed => e
      @failures[key] = e.message
      Bench.account.absent(*key, e.message)
      nil
    end

    def measure(entry, page)
      warm_up(entry.port, page) unless page.warm
      meter = CpuMeter.new(entry.child.pid).start
      found = ask(entry.port, page, @seconds)
      used = meter.stop
      Turn.new(per_second: found[:answers] * 1e6 / found[:whole], **found.slice(:p50, :p99),
               resident: entry.child.resident, cpu: used.nanoseconds / 1000.0 / found[:answers])
    end

    # By number: a server that is slow at first is no less warm than the others.
    def warm_up(port, page)
      answers = 0
      WARM_UPS.times { answers += ask_at_first(port, page) if answers < WARM_UP }
    end

    # All of the first requests may take longer than that.
    def ask_at_first(port, page)
      ask(port, page, 1)[:answers]
    rescue Failed
      0
    end

    # The client waits for all that it has asked for. When the time is over, a server on fibers has begun with the
    # request of each connection, one with three threads with three; what was begun has cost time, and is to count.
    def ask(port, page, seconds)
      form = page.form ? ["0", page.form] : []
      found = Client.figures("rounds", port.to_s, CONNECTIONS.to_s, seconds.to_s, page.path, *form, prefix: @prefix)
      answers, failed = found.values_at(:answers, :failed)
      raise Failed, "#{failed} of #{answers + failed} answers were wrong" if failed > answers * Wrk::ERRORS_MAX

      found
    end

    def cells(field, rounds)
      ours = field.turns.fetch("abaca", [])
      of = ->(turns, page) { turns.filter_map { |turn| turn.fetch(page.name) } }
      pages = PAGES.flat_map { |page| figures(of[rounds, page], of[ours, page]) }
      [*pages, rounds.map { |turn| turn.values.compact.map(&:resident).max.to_i }.max.fdiv(1 << 20).round]
    end

    def figures(turns, ours)
      return [nil] * 5 if turns.empty?

      rate, p50, p99, cpu = %i[per_second p50 p99 cpu].map { |field| Statistics.median(turns.map(&field)) }
      [rate.round, (p50 / 1000.0).round, (p99 / 1000.0).round, cpu.round,
       Ratio.new(turns.map(&:cpu), ours.map(&:cpu)).cell]
    end
  end
end

Bench.main("rails") do |main|
  main.quick("one round of two seconds", rounds: 1, seconds: 2)
  main.option(:databases, Bench::RailsContest::DATABASES.keys, "some of these")
  main.option(:rounds, 5, "interleaved rounds")
  main.option(:seconds, 2, "for each page")
  main.option(:only, nil, "only these servers")
  main.ruby
  main.unpinned
  main.measure { |options| main.show(Bench::RailsContest.new(**options)) }
end
