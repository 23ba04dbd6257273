# frozen_string_literal: true

require_relative "../screen"

module Abaca
  class Sight
    module Screens
      # What has happened, the newest first.
      class Events < Screen
        describe :events, "Events", [
          words(:at, "TIME", unit: :time, rank: 0), words(:kind, "KIND", rank: 0), figure(:worker, "W", :count),
          figure(:took, "TOOK", :seconds), figure(:status, "STATUS", :id, rank: 2),
          words(:text, "WHAT", wide: true, rank: 0)
        ], sort: :at

        private

        def all
          events = @look.now.events.reject { |event| @worker && @look.now.number(event[:slot]) != @worker }
          events.map do |event|
            text = event[:lasts] ? "at least: #{event[:text]}" : event[:text]
            cells = { at: event[:at], kind: event[:kind], worker: @look.now.number(event[:slot]), took: event[:time],
                      status: event[:status], text:, pid: event[:pid], request: event[:request] }
            Row.new(id: "#{event[:slot]}.#{event[:number]}", cells:)
          end
        end
      end
    end
  end
end
