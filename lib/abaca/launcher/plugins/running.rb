# frozen_string_literal: true

module Abaca
  class Launcher
    class Plugins
      # A plugin that runs: its threads and the processes that it forks.
      class Running
        # What a plugin calls on itself.
        module Calls
          # Runs a block on a thread of its own, once the server has booted.
          def in_background(&block) = @abaca.background(block)

          private

          # A child has nothing of the server's.
          def fork(&block)
            return super unless block

            running = @abaca
            super { running.in_child(&block) }
          end
        end
        private_constant :Calls

        # @param name [String]
        # @param plugin [Puma::Plugin]
        # @param log [Log]
        # @param in_child [#call] is called in each child first
        def initialize(name, plugin, log, in_child:)
          @name = name
          @plugin = plugin
          @log = log
          @in_child = in_child
          @blocks = []
          @threads = {} # with their blocks
          plugin.instance_variable_set(:@abaca, self)
          plugin.extend(Calls)
        end

        # @param block [Proc] for a thread
        def background(block)
          @blocks << block
          start if @started
        end

        # Starts the threads that do not run. Idempotent.
        def run_in_background
          @started = true
          start
        end

        # The plugin is about to hear of a restart or of the end. A trap handler may call it.
        def pause; end

        # It has heard of a restart.
        def restarted; end

        # Runs a block in a child of the process.
        def in_child
          @in_child.call
          yield
        end

        private

        def start
          @blocks.shift(@blocks.size).each do |block|
            thread = Thread.new { run(block) }
            thread.name = "plugin #{@name}"
            @threads[thread] = block
          end
        end

        # Ends the threads; #run_in_background begins anew.
        def pause_threads
          @started = false
          @threads.each_key(&:kill)
          @blocks.concat(@threads.values)
          @threads.clear
        end

        def run(block)
          block.call
        rescue StandardError, ScriptError => e
          @log.error("plugin #{@name}: its thread has failed: #{e.message} (#{e.class}) at #{e.backtrace&.first}; " \
                     "#{Config::Plugins.lost(@name)}")
        end
      end
    end
  end
end
