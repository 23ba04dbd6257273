# frozen_string_literal: true

module Bench
  # Every row on every target of one Ruby, in interleaved rounds, each turn in a process of its own.
  class SchedulerContest
    MAIN = File.join(DIR, "scheduler", "turn.rb")

    # @return [Bench::Ruby]
    attr_reader :ruby
    # @return [Hash] target name => reason, for targets that could not take part
    attr_reader :absent
    # @return [Hash] [target name, row name] => reason
    attr_reader :failures
    # @return [Hash] target name => version of its gem
    attr_reader :versions

    # @return [(Array<String>, Hash, String)] how the command of a target's turns begins, its environment, and its gem's
    #   version
    # @raise [Unavailable]
    def self.start(target, ruby)
      gems = target.gem && Gems.new(target.gem, ruby: ruby, with: [])
      gems&.install
      folder = target.name == "abaca" ? ["-I#{ruby.abaca}"] : []
      [ruby.command(*folder, MAIN, target.name), target.env.to_h.merge(gems ? gems.env : {}), gems&.version]
    end

    # @param settings [Hash] `rounds`; `scale`, the share of the full number of operations; `pinned`, to
    #   CPU 0, and the HTTP server of two rows to CPU 1; `limit`, the seconds for one turn
    def initialize(ruby:, targets:, rows:, settings:)
      @ruby = ruby
      @targets = targets
      @rows = rows
      @rounds, @scale, @pinned, @limit = settings.fetch_values(:rounds, :scale, :pinned, :limit)
      @absent = {}
      @failures = {}
      @versions = {}
      @turns = Hash.new { |hash, key| hash[key] = [] }
    end

    def run
      @ready = @targets.to_h { |target| [target, prepare(target)] }.compact
      start_upstream if @rows.any? { |row| row.name.start_with?("http") }
      @rows.each do |row|
        @rounds.times do |round|
          warn "Ruby #{@ruby.version}, #{row.title}: round #{round + 1} of #{@rounds}"
          (round.even? ? @ready.keys : @ready.keys.reverse).each { |target| take_turn(target, row) }
        end
      end
    ensure
      @upstream&.stop
    end

    # @return [Array<Float>] µs for each operation, one of each round; empty when the row failed
    def figures(target, row, kind = row.figure || :wall)
      return [] if @failures.key?([target.name, row.name])

      @turns.fetch([target.name, row.name], []).map { |turn| turn.fetch(kind) / turn.fetch(:operations) * 1e6 }
    end

    private

    # The start of the command line and the environment, or nil.
    def prepare(target)
      command, env, version = SchedulerContest.start(target, @ruby)
      @versions[target.name] = version if version
      { command: command, env: env }
    rescue Unavailable => e
      @absent[target.name] = e.message
      Bench.account.absent("scheduler, Ruby #{@ruby.version}", target.name, e.message)
      nil
    end

    def start_upstream
      @port = Ports.free
      program = Compiler.program("servers/limit_epoll.c")
      @upstream = Child.new([program, "-p", @port.to_s, "-s", "1200"], name: "scheduler-upstream",
                                                                       cpu: @pinned ? 1 : nil)
      @upstream.wait_ready(seconds: 5) { Probe.get(port: @port, seconds: 1) }
    end

    def take_turn(target, row)
      return if @failures.key?([target.name, row.name])

      @turns[[target.name, row.name]] << Bench.account.turn(place(row), target.name) { measure(target, row) }
    rescue Failed => e
      @failures[[target.name, row.name]] = e.message
      Bench.account.absent(place(row), target.name, e.message)
    end

    def place(row) = "#{row.name}, Ruby #{@ruby.version}"

    def measure(target, row)
      ready = @ready.fetch(target)
      Turn.take([*ready[:command], row.name, @scale.to_s], limit: @limit, cpu: @pinned ? 0 : nil,
                                                           name: "scheduler-#{@ruby.name}-#{target.name}-#{row.name}",
                                                           env: ready[:env].merge("UPSTREAM" => @port.to_s))
    end
  end
end
