# frozen_string_literal: true

require "json"

module Abaca
  class Profile
    # All there is, on one line; keys are only added.
    class JSONForm < Form
      # As Form.
      def type = "application/json"

      # @return [String]
      def text
        stacks = @profile.merged.map do |stack|
          { route: stack.label, state: stack.state, place: stack.place, seconds: stack.seconds.round(6),
            samples: stack.samples, frames: stack.frames }
        end
        JSON.generate({ v: 1, kind: @profile.kind, seconds: @profile.seconds, total: @profile.total.round(6),
                        workers: @profile.workers.map(&:to_h), stacks: })
      end
    end
  end
end
