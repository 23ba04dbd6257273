# frozen_string_literal: true

require "etc"

module Abaca
  class Metrics
    # What Linux says of each process: the workers by number, so that a new one continues what another one began,
    # the master, and the watch, which is the process that asks.
    class Processes
      # A process that was seen: its number, its beginning for the kernel, CPU seconds, bytes, descriptors.
      Seen = Struct.new(:pid, :start, :cpu, :rss, :fds, :most_fds)
      # Seconds between two looks at the memory: the kernel walks through all of it.
      LOOK = 10
      # Fields of smaps_rollup, and what they are called here.
      KINDS = { "Pss" => :pss, "Anonymous" => :anonymous }.freeze
      TICKS = Etc.sysconf(Etc::SC_CLK_TCK)
      PAGE = Etc.sysconf(Etc::SC_PAGESIZE)
      private_constant :Seen, :LOOK, :KINDS, :TICKS, :PAGE

      # @param workers [Workers]
      # @param master [Integer] the launcher's process
      # @param root [String] the folder that has `proc`
      def initialize(workers, master:, root: Platform.here.root)
        @workers = workers
        @master = master
        @proc = File.join(root, "proc")
        @seen = {} # [worker, process, start] => CPU seconds
        @ended = Hash.new(0.0) # worker => CPU seconds of processes that are no more
        @memory = {}
        @boot = File.read(File.join(@proc, "stat"))[/^btime (\d+)/, 1].to_i
      rescue SystemCallError
        @boot = 0
      end

      # @param text [Text]
      def write(text, _found)
        all = processes.filter_map { |worker, pid| (seen = look(pid)) && [worker, seen] }
        text.counter("process_cpu_seconds_total", "CPU time.", cpu(all))
        text.gauge("process_resident_memory_bytes", "Resident memory.", sum(all, &:rss))
        text.gauge("process_open_fds", "Open descriptors.", sum(all, &:fds))
        text.gauge("process_max_fds", "Descriptors that may be open.", sum(all, &:most_fds))
        text.gauge("process_start_time_seconds", "When the process began, by Unix time.", starts(all))
        text.gauge("abaca_memory_bytes", "Memory, looked at each ten seconds. pss: shared pages count in part.",
                   memory)
      end

      private

      def processes
        workers = @workers.live.map { |worker, slot| [worker, slot.pid] }
        workers.push([:master, @master]) if @workers.clustered?
        workers.push([:watch, Process.pid])
      end

      # nil when the process has ended.
      def look(pid)
        # Behind the name, which may be anything: user and system time are the 14th and 15th, the start is the 22nd, the
        # resident pages are the 24th.
        fields = File.read("#{@proc}/#{pid}/stat").rpartition(")").last.split
        Seen.new(pid, fields[19].to_i, (fields[11].to_i + fields[12].to_i) / TICKS.to_f, fields[21].to_i * PAGE,
                 *descriptors(pid))
      rescue SystemCallError
        nil
      end

      def descriptors(pid)
        most = File.read("#{@proc}/#{pid}/limits")[/^Max open files\s+(\d+)/, 1]
        [open_descriptors("#{@proc}/#{pid}/fd"), most&.to_i]
      rescue SystemCallError
        [] # another user's
      end

      # From Linux 6.2 on the folder's size is their number: nobody lists thousands of them.
      def open_descriptors(folder)
        size = File.stat(folder).size
        size.positive? ? size : Dir.children(folder).size
      end

      # What was seen of a process stays in the sum.
      def cpu(all)
        now = all.to_h { |worker, seen| [[worker, seen.pid, seen.start], seen.cpu] }
        @seen.each { |key, seconds| @ended[key.first] += seconds unless now.key?(key) }
        @seen = now
        sums = @ended.dup
        now.each { |(worker, *), seconds| sums[worker] += seconds }
        sums.to_h { |worker, seconds| [{ worker: }, seconds.round(2)] }
      end

      def sum(all)
        all.each_with_object({}) do |(worker, seen), sums|
          value = yield(seen) or next
          sums[{ worker: }] = sums.fetch({ worker: }, 0) + value
        end
      end

      def starts(all)
        all.group_by(&:first).to_h do |worker, of_worker|
          [{ worker: }, (@boot + (of_worker.map { |_, seen| seen.start }.max / TICKS.to_f)).round(2)]
        end
      end

      def memory
        now = Process.clock_gettime(Process::CLOCK_MONOTONIC)
        return @memory if @looked && now < @looked + LOOK

        @looked = now
        @memory = processes.each_with_object({}) do |(worker, pid), found|
          rollup(pid).each { |kind, bytes| found[{ worker:, kind: }] = found.fetch({ worker:, kind: }, 0) + bytes }
        end
      end

      def rollup(pid)
        File.read("#{@proc}/#{pid}/smaps_rollup").scan(/^(Pss|Anonymous):\s+(\d+) kB/)
            .to_h { |name, kilobytes| [KINDS.fetch(name), kilobytes.to_i * 1024] }
      rescue SystemCallError
        {} # it has ended, or is another user's
      end
    end
  end
end
