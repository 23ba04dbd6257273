# frozen_string_literal: true

module Parcels
  module Actions
    class Create < Action
      def handle(request, response)
        label = request.params[:label]
        response.status = 201
        response.body = "#{request.params[:to]} #{label[:filename]} #{label[:tempfile].size}"
      end
    end
  end
end
