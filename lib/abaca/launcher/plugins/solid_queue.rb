# frozen_string_literal: true

require_relative "running"

module Abaca
  class Launcher
    class Plugins
      # Solid Queue's plugin, which runs jobs in processes or on threads of its own. A thread of its stops the server
      # when the processes have gone, even if the plugin has ended them itself: so that thread rests at a restart and at
      # the end. On threads, the plugin starts its supervisor anew at a restart, and once more when the server has
      # booted: so the first of the two is ended, or jobs would run twice, or be broken off by an exec.
      class SolidQueue < Running
        def pause = pause_threads

        def restarted
          @plugin.solid_queue_supervisor&.stop if @plugin.respond_to?(:solid_queue_supervisor)
        end
      end
    end
  end
end
