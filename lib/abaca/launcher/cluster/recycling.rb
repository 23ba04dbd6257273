# frozen_string_literal: true

module Abaca
  class Launcher
    class Cluster
      # Finds workers that have served for long enough: by requests, by age or by memory. One at a time is replaced, and
      # a pause follows.
      class Recycling
        # Seconds between two looks at the memory: the kernel walks through all of it.
        LOOK = 5
        private_constant :LOOK

        # @param config [Config]
        # @param log [Log]
        # @param root [String] the folder that has `proc`
        # @yieldparam worker [Handle]
        # @yieldreturn [Object] what replaces it
        def initialize(config, log, root: Platform.here.root, &replace)
          @requests, @age, @memory, @pause = config.to_h.values_at(:worker_max_requests, :worker_max_age,
                                                                   :worker_max_memory, :worker_cool_down)
          @log = log
          @proc = File.join(root, "proc")
          @replace = replace
          @next = 0
        end

        # @param workers [Array<Handle>] all that serve
        # @return [Object, nil] what the block returned, for a worker whose time has come
        def due(workers)
          return if now < @next || workers.empty? || !workers.all?(&:booted?)

          worker, reason = by_requests(workers) || by_age(workers) || by_memory(workers)
          return unless worker

          @next = now + @pause
          @log.info("- #{worker} is replaced: #{reason}")
          @replace.call(worker)
        end

        private

        def by_requests(workers)
          return unless @requests

          worker, most = workers.map { |one| [one, one.slot.figures[:requests]] }.max_by(&:last)
          [worker, "#{most} requests (worker_max_requests)"] if most >= @requests
        end

        def by_age(workers)
          oldest = workers.max_by(&:age)
          [oldest, "#{oldest.age.round} s old (worker_max_age)"] if @age && oldest.age >= @age
        end

        def by_memory(workers)
          return unless @memory && now >= (@look || 0)

          @look = now + LOOK
          worker, most = workers.map { |one| [one, memory_of(one.pid)] }.max_by(&:last)
          [worker, "#{most / 1_048_576} MB (worker_max_memory)"] if most > @memory
        end

        # Its share of the memory (PSS), in bytes: pages that it shares with others count in part.
        def memory_of(pid)
          File.read("#{@proc}/#{pid}/smaps_rollup")[/^Pss:\s+(\d+) kB/, 1].to_i * 1024
        rescue SystemCallError
          0 # it has just ended, or there is no /proc
        end

        def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)
      end
    end
  end
end
