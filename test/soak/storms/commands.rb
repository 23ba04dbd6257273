# frozen_string_literal: true

require "stringio"
require "abaca/control/cli"

module Storms
  # The commands of abacactl one after the other, under load: each does what it says, and no request fails. Those that
  # end and start a server come last, without load.
  class Commands < Storm
    named "commands", "abacactl's commands under load"

    SETTINGS = "preload_app! false\nactivate_control_app 'unix://control', { auth_token: 'secret' }\n" \
               "state_path 'state'\n"
    # In this order, so that there are as many workers at the end of a round as at its beginning.
    ROUND = %w[status stats gc gc-stats thread-backtraces workers worker-count-up stats worker-count-down reopen-log
               info reload-worker-directory phased-restart status restart dump refork].freeze
    RENEWING = %w[phased-restart restart].freeze
    # What such a server cannot do.
    REFUSED = %w[refork].freeze

    private

    def blow
      @counts = Hash.new(0)
      under_load(SETTINGS) do |cluster, _|
        every(0) { ROUND.each { |name| under_way(cluster, name) } }
      end
      Cluster.open(SETTINGS, workers: 0) { |cluster| end_and_start(cluster) }
    ensure
      @figures["commands"] = @counts.map { |name, count| "#{count} #{name}" }.join(", ")
    end

    def under_way(cluster, name)
      Storms.wait_for("a quiet moment") { cluster.settled? } if RENEWING.include?(name)
      before = cluster.workers
      REFUSED.include?(name) ? refuse(cluster, name) : succeed(cluster, name)
      cluster.renewed(before) if RENEWING.include?(name)
    end

    def end_and_start(cluster)
      ending(cluster, "stop")
      @counts["start"] += 1
      cluster.start(Command.words(["-F", "settings.rb", "start"], "abacactl"))
      ending(cluster, "halt")
    end

    def ending(cluster, name)
      cluster.port # when it serves
      succeed(cluster, name)
      Storms.wait_for("the end") { cluster.ended? }
      @wrong.concat(cluster.leftovers)
    end

    def succeed(cluster, name)
      status, text = command(cluster, name)
      @wrong << "#{name} ends with #{status}: #{text}" unless status.zero?
    end

    def refuse(cluster, name)
      status, text = command(cluster, name)
      @wrong << "#{name} is not refused: #{status}: #{text}" unless status == 1 && text.include?("not available")
    end

    # Returns the exit status, and the last that was printed.
    def command(cluster, name)
      @counts[name] += 1
      out = StringIO.new
      status = Abaca::Control::CLI.run(["-S", cluster.path("state"), name], out:, err: out)
      [status, out.string.lines.last(3).join]
    end
  end
end
