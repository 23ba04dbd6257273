# frozen_string_literal: true

module Storms
  # Workers are killed at random: what fails was in their hands, new connections are taken, successors come at once.
  class Kills < Storm
    named "kills", "kill -9 of a random worker every 200 ms: only its requests fail"

    PAUSE = 0.2
    # Seconds within which a successor serves.
    SUCCESSION = 1

    private

    def blow
      killed = []
      times = []
      # A connection that has not been answered may have been any worker's.
      mine = lambda do |note|
        %i[fresh kept partial].include?(note.kind) && (note.worker.nil? || killed.include?(note.worker))
      end
      under_load("preload_app!", bearable: mine) do |cluster, _|
        every(PAUSE) { times << replace(cluster, killed) }
      end
    ensure
      @figures["killed"] = "#{killed.size} workers"
      @figures["until the successor serves"] = milliseconds(times)
      late = times.count { |time| time > SUCCESSION }
      @wrong << "#{late} successors took longer than #{SUCCESSION} s" if late.positive? && !@rounds
    end

    # Returns the seconds that it took.
    def replace(cluster, killed)
      count = cluster.booted.size
      worker = cluster.workers.sample(random: @random)
      killed << worker # before it happens: clients notice at once
      start = Storms.now
      cluster.signal(:KILL, worker)
      Storms.wait_for("the successor") { cluster.booted.size > count }
      Storms.now - start
    end
  end
end
