# frozen_string_literal: true

require "open3"

module Storms
  # The commands of abacactl one after the other, under load: each does what it says, and no request fails.
  class Commands < Storm
    named "commands", "abacactl's commands under load"

    SETTINGS = "preload_app! false\nactivate_control_app 'unix://control', { auth_token: 'secret' }\n" \
               "state_path 'state'"
    # In this order, so that there are as many workers at the end of a round as at its beginning.
    ROUND = %w[status stats gc gc-stats thread-backtraces workers worker-count-up stats worker-count-down reopen-log
               info phased-restart status restart].freeze
    RENEWING = %w[phased-restart restart].freeze

    private

    def blow
      counts = Hash.new(0)
      under_load(SETTINGS) do |cluster, _|
        every(0) do |nth|
          name = ROUND[nth % ROUND.size]
          command(cluster, name)
          counts[name] += 1
        end
        cluster.level # the time may be over between the two
      end
    ensure
      @figures["commands"] = counts.map { |name, count| "#{count} #{name}" }.join(", ")
    end

    def command(cluster, name)
      Storms.wait_for("a quiet moment") { cluster.settled? } if RENEWING.include?(name)
      before = cluster.workers
      words = Command.words(["-S", "state", name], "abacactl")
      out, status = Open3.capture2e(Command.environment("RUBYOPT" => nil), *words, chdir: cluster.path("."))
      return @wrong << "#{name}: #{status}: #{out.lines.last(3).join}" unless status.success?

      cluster.renewed(before) if RENEWING.include?(name)
    end
  end
end
