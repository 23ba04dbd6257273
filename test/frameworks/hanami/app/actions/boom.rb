# frozen_string_literal: true

module Parcels
  module Actions
    class Boom < Action
      def handle(_request, _response)
        raise "secret of the parcels"
      end
    end
  end
end
