# frozen_string_literal: true

require "rbconfig"

module Storms
  # TERM at each moment of the boot. The process ends with a documented status, and leaves nothing behind. While Ruby
  # itself boots, it may lose a signal: a plain Ruby beside it shows how often.
  class Terms < Storm
    named "terms", "TERM at any moment of the boot, 0 to 500 ms in steps of 5 (all: --seconds 300)"

    STEP = 0.005
    LAST = 0.5
    # Seconds after which a signal counts as lost, and comes once more.
    LOST = 15
    PLAIN = "Signal.trap(:TERM, 'SYSTEM_DEFAULT'); sleep"

    private

    def blow
      @figures["moments"] = 0
      @lost = Hash.new(0)
      @ends = Hash.new(0)
      @rubies = 0
      until_over do |moment|
        [0, Cluster::WORKERS].each { |workers| at(moment, workers) }
        plain(moment)
        @figures["moments"] += 1
      end
    ensure
      @figures["ends"] = @ends.sort_by(&:last).reverse.map { |how, count| "#{count} #{how}" }.join(", ")
      @figures["lost while Ruby boots"] = "#{@lost[:boot]} of #{@figures["moments"] * 2}; of a plain Ruby, " \
                                          "#{@lost[:plain]} of #{@rubies}"
    end

    # All moments in any order: a short run has some of everywhere.
    def until_over
      moments = (0..(LAST / STEP).round).map { |nth| nth * STEP }.shuffle(random: @random)
      every(0) { |nth| moments[nth] ? yield(moments[nth]) : break }
    end

    def at(moment, workers)
      Cluster.open(workers: workers) do |cluster|
        sleep moment # the subject
        cluster.signal(:TERM)
        early = cluster.text.empty?
        unless ends?(cluster)
          early ? @lost[:boot] += 1 : @wrong << "a TERM after #{moment} s is lost: #{cluster.last_lines}"
          cluster.signal(:TERM)
        end
        Storms.wait_for("the end") { cluster.ended? }
        check(cluster, moment)
      end
    end

    def ends?(process)
      Storms.wait_for("the end", within: LOST) { process.ended? }
    rescue Failed
      false
    end

    # Until there is a handler, the signal does what it does in any program; while Ruby boots, that is status 1.
    def check(cluster, moment)
      status = cluster.ended?
      ruby = cluster.text.empty? || cluster.text.include?("<internal:gem_prelude>")
      how = status.signaled? ? "by #{Signal.signame(status.termsig)}" : "with #{status.exitstatus}"
      @ends[how] += 1
      good = status.termsig == Signal.list["TERM"] || status.exitstatus&.zero? || (status.exitstatus == 1 && ruby)
      @wrong << "after #{moment} s, it ends #{how}: #{cluster.last_lines}" unless good
      @wrong.concat(cluster.leftovers.map { |what| "after #{moment} s, #{what}" })
    end

    Plain = Struct.new(:pid) do
      def ended? = Process.wait2(pid, Process::WNOHANG)
    end
    private_constant :Plain

    def plain(moment)
      process = Plain.new(Process.spawn({ "RUBYOPT" => nil }, RbConfig.ruby, "-e", PLAIN, err: File::NULL))
      sleep moment # as for a server
      Process.kill(:TERM, process.pid)
      @rubies += 1
      return if ends?(process)

      @lost[:plain] += 1
      Process.kill(:KILL, process.pid)
      Process.wait(process.pid)
    end
  end
end
