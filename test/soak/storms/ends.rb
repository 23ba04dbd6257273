# frozen_string_literal: true

module Storms
  # The master is killed, again and again: its workers answer what had begun, and end. The socket's file, which nobody
  # could remove, does not keep the next server from booting.
  class Ends < Storm
    named "ends", "kill -9 of the master: workers drain and end"

    CLIENTS = 15
    private_constant :CLIENTS

    private

    def blow
      @answered = 0
      @kept = 0
      count = 0
      Cluster.open("preload_app!") do |cluster|
        every(0) do |nth|
          cluster.start if nth.positive?
          round(cluster)
          count += 1
        end
      end
    ensure
      @figures["masters killed"] = count
      @figures["requests"] = "#{@answered} answered, #{@kept} kept connections closed between two"
    end

    def round(cluster)
      clients = Clients.new(cluster.port, [@clients, CLIENTS].min)
      Storms.wait_for("answers") { clients.answers > 100 }
      sleep @random.rand(0.3) # any moment
      killed = Storms.now
      cluster.signal(:KILL)
      Storms.wait_for("the master's end") { cluster.ended? }
      @wrong.concat(cluster.leftovers(files: false))
    ensure
      clients&.stop
      judge_round(clients, killed) if killed
    end

    # What began later found a server that ends.
    def judge_round(clients, killed)
      @answered += clients.answers
      before = clients.notes.select { |note| note.began < killed }
      kept, wrong = before.partition { |note| note.kind == :kept }
      @kept += kept.size
      @wrong.concat(wrong.map { |note| "#{note.kind}, begun before the kill: #{note.text}" })
    end
  end
end
