# frozen_string_literal: true

require_relative "../screen"

module Abaca
  class Sight
    module Screens
      # A row for each of the addresses that ask most.
      class Clients < Screen
        describe :clients, "Clients", [
          words(:address, "ADDRESS", wide: true, rank: 0), figure(:open, "OPEN", :count),
          figure(:rate, "R/S", :rate, rank: 0), figure(:bytes, "MB/S", :mean),
          figure(:errors, "4XX", :count), figure(:slow, "SLOW", :count)
        ], sort: :rate

        private

        def all
          seconds = @look.seconds
          @look.clients.map do |address, client|
            cells = { address:, open: client[:open], rate: seconds.positive? ? client[:requests] / seconds : nil,
                      bytes: seconds.positive? ? client[:bytes] / seconds / Units::MB : nil, errors: client[:errors],
                      slow: client[:slow] }
            Row.new(id: address, cells:)
          end
        end
      end
    end
  end
end
