# frozen_string_literal: true

module Bench
  # Processes that a benchmark measures one by one. A subclass says which ones (`@labels`), and what each runs.
  class Scripted < Subject
    # How the files of its own code begin, its environment, and the command that does a share of the operations: one of
    # 1 does them all, one of 10 a tenth.
    Script = Struct.new(:own, :env, :command, keyword_init: true)

    # What was counted: of an operation, and of all the processor time the collector's percentage.
    Counts = Struct.new(:objects, :page_faults, :collections, :collector, keyword_init: true) do
      # @param turns [Array<Hash>] what `turn` returns
      def self.of(turns)
        sum = ->(name) { turns.sum { |turn| turn.fetch(name) } }
        each = %i[objects page_faults collections].to_h { |name| [name, sum[name].fdiv(sum[:operations]).round(5)] }
        new(collector: (sum[:gc] * 100 / sum[:cpu]).round(1), **each)
      end

      def to_s
        "#{objects.round(2)} objects, #{page_faults.round(3)} page faults, #{collections} collections, which take " \
          "#{collector} % of the processor time"
      end
    end

    TURNS = 5 # processes of the first run, at most
    SHARE = 10 # of the second one, since strace takes its time with each call
    LIMIT = 120 # seconds for one process

    def title = @name

    def run
      @found = {}
      @absent = {}
      @labels.each do |label|
        warn "#{@name}: #{label}"
        @found[label] = look(script(label))
      rescue Unavailable, Failed => e
        @absent[label] = e.message
      end
    end

    private

    attr_reader :found, :absent

    # @return [Script]
    # @raise [Unavailable]
    def script(label) = raise(NotImplementedError)

    def look(script)
      samples = Samples.new(own: script.own)
      counted = []
      seconds = 0
      TURNS.times do
        break if seconds >= @seconds

        counted << turn(script) do |pid, work|
          samples.add(Recorder.samples([pid], cpu: @other_cpu) { seconds += work.call })
        end
      end
      text = nil
      traced = turn(script, share: SHARE) { |pid, work| text = Recorder.calls([pid], cpu: @other_cpu, &work) }
      Found.new(samples: samples, calls: SystemCalls.new(text, traced.fetch(:operations)), counts: Counts.of(counted))
    end

    # Runs it, and yields its process when its window begins, and what lets it do the work.
    # @return [Hash{Symbol => Numeric}] operations, and what Window has counted
    def turn(script, share: 1)
      env = script.env.merge(Window::VARIABLE => "1")
      log = nil
      done = Turn.take(script.command.call(share), name: "profile-script", env: env, limit: LIMIT, cpu: @cpu) do |child|
        await_stop(child, Window::BEGINS)
        yield child.pid, -> { work(child) }
        await_stop(child, Window::ENDS)
        let_go(child)
        log = child.log
      end
      counted = File.read(log)[/^#{Window::COUNTED}(.+)$/, 1]
      JSON.parse(counted, symbolize_names: true).merge(operations: done.fetch(:operations))
    end

    # @return [Float] seconds from the window's begin to its end
    def work(child)
      start = Clock.now
      let_go(child)
      await(child, Window::ENDS)
      Clock.now - start
    end

    def let_go(child) = Process.kill("CONT", child.pid)

    def await(child, word)
      Clock.wait_until(seconds: LIMIT, every: 0.002) { !child.running? || File.read(child.log).include?(word) }
      raise Failed, "#{word.inspect} did not come: #{child.last_words}" unless child.running?
    end

    # The state of a process follows its name. A tracer would hide it.
    def await_stop(child, word)
      await(child, word)
      Clock.wait_until(seconds: LIMIT, every: 0.002) { CpuMeter.read("/proc/#{child.pid}/stat")[/\) (\w)/, 1] == "T" }
    end
  end

  # A row of `bin/bench fibers`: jobs of a pool, and new fibers.
  class FiberScripts < Scripted
    KINDS = { "FiberPool" => "pool", "Fiber.new" => "fresh" }.freeze
    KEPT = { FiberRows::SWITCH => "0" }.freeze

    def initialize(row:, only: nil, **options)
      super(name: "fibers/#{row.name}", **options)
      @row = row
      @labels = only || KINDS.keys
    end

    private

    def script(label)
      command = ->(share) { FiberRows.command(@ruby, KINDS.fetch(label), @row, share) }
      Script.new(own: ["abaca"], env: KEPT, command: command)
    end
  end

  # A row of `bin/bench scheduler`: Abaca, and the target that is ahead there.
  class SchedulerScripts < Scripted
    PEERS = Hash.new("itsi").merge("cross_thread" => "threads", "pipe" => "uringmachine", "tcp" => "uringmachine",
                                   "socketpair" => "uringmachine", "sleeps" => "carbon_fiber").freeze
    # Those that need no server.
    ROWS = Workloads::ROWS.reject { |row| row.name.start_with?("http") }.freeze
    # Files of a gem that are not called like it.
    OWN = { "uringmachine" => "um_" }.freeze

    def initialize(row:, only: nil, **options)
      super(name: "scheduler/#{row.name}", **options)
      @row = row
      @labels = only || ["abaca", PEERS[row.name]]
    end

    private

    def script(label)
      words, env = SchedulerContest.start(Targets.pick([label]).first, @ruby)
      Script.new(own: [label, *OWN[label]], env: env, command: ->(share) { [*words, @row.name, 1.0.fdiv(share).to_s] })
    end
  end

  # A column of `bin/bench serializer`: an Outbox, and the class that is ahead there.
  class SerializerScripts < Scripted
    PEERS = Hash.new("String").merge("cycle" => "IO::Buffer").freeze

    def initialize(row:, only: nil, **options)
      super(name: "serializer/ruby-#{row.name}", **options)
      @row = row
      @labels = only || ["Outbox", PEERS[row.name]]
    end

    private

    def script(label)
      command = ->(share) { Cells.command(@ruby, @row.name, label, @row.times / share) }
      Script.new(own: ["abaca"], env: {}, command: command)
    end
  end
end
