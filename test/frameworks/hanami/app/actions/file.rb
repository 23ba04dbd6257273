# frozen_string_literal: true

module Parcels
  module Actions
    class File < Action
      def handle(_request, response)
        response.unsafe_send_file(__FILE__)
      end
    end
  end
end
