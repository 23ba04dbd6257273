# frozen_string_literal: true

module Parcels
  module Actions
    class Show < Action
      def handle(request, response)
        response.body = "parcel #{request.params[:id]} for #{request.params[:to]}"
      end
    end
  end
end
