# frozen_string_literal: true

module Abaca
  class Config
    class DSL
      # What is done about a request that keeps its loop, see docs/stalls.md. All times are milliseconds.
      module Stalls
        # After so long without a turn of the loop others take over. 0: never. Default 20.
        #
        #   stall_after 20
        def stall_after(milliseconds)
          @options[:stall_after] = milliseconds
        end

        # So many loops on threads of their own there may be, made when they are first needed. 0: none. Default 8.
        #
        #   spare_loops 8
        def spare_loops(count)
          @options[:spare_loops] = count
        end

        # A request that has kept its loop for so long is named in the log. 0: none is. Default 100.
        #
        #   stall_report 100
        def stall_report(milliseconds)
          @options[:stall_report] = milliseconds
        end

        # The server's threads shall not wait longer for Ruby's global lock. 0: as long as Ruby has them wait.
        # Default 5.
        #
        #   gvl_wait_target 5
        def gvl_wait_target(milliseconds)
          @options[:gvl_wait_target] = milliseconds
        end

        # After so long a fiber that only computes makes room for the others, in the middle of its code. nil,
        # the default: never (docs/scheduler.md says what it means for the app).
        #
        #   quantum 20
        def quantum(milliseconds)
          @options[:quantum] = milliseconds
        end
      end
    end
  end
end
