# frozen_string_literal: true

module Storms
  # SIGSTOP of workers and of the master. A worker that goes on in time loses nothing; one that does not is replaced,
  # and its requests are all that fails; nobody notices that the master rests.
  class Stops < Storm
    named "stops", "SIGSTOP of a worker, for a moment and for good, and of the master"

    TIMEOUT = 2 # the workers', in seconds
    MOMENT = 0.3
    SETTINGS = "preload_app!\nworker_check_interval 0.5\nworker_timeout #{TIMEOUT}".freeze

    private

    def blow
      @lost = []
      counts = Hash.new(0)
      mine = lambda do |note|
        lost = note.worker.nil? || @lost.include?(note.worker)
        note.kind == :kept || (lost && %i[fresh partial].include?(note.kind))
      end
      under_load(SETTINGS, bearable: mine) do |cluster, clients|
        every(0) do |nth|
          what = %i[moment master good][nth % 3]
          send(what, cluster)
          counts[what] += 1
          goes_on(clients)
        end
      end
    ensure
      @figures["stops"] = "#{counts[:moment]} of a worker for #{MOMENT} s, #{counts[:good]} for good, " \
                          "#{counts[:master]} of the master"
    end

    # A worker goes on before anybody misses it.
    def moment(cluster)
      rest(cluster, cluster.workers.sample(random: @random))
    end

    # While the master rests, a worker dies, and is replaced afterwards.
    def master(cluster)
      count = cluster.booted.size
      @lost << (worker = cluster.workers.sample(random: @random))
      rest(cluster, cluster.pid) { cluster.signal(:KILL, worker) }
      Storms.wait_for("the successor") { cluster.booted.size > count && cluster.settled? }
    end

    # A worker does not go on.
    def good(cluster)
      count = cluster.booted.size
      @lost << (worker = cluster.workers.sample(random: @random))
      cluster.signal(:STOP, worker)
      Storms.wait_for("the successor") { cluster.booted.size > count && cluster.settled? }
    end

    def rest(cluster, pid)
      cluster.signal(:STOP, pid)
      yield if block_given?
      sleep MOMENT
    ensure
      cluster.signal(:CONT, pid)
    end

    def goes_on(clients)
      before = clients.answers
      Storms.wait_for("an answer") { clients.answers > before + 100 }
    end
  end
end
