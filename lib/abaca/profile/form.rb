# frozen_string_literal: true

module Abaca
  class Profile
    # A form in which a profile is shown: its text, and what that is.
    class Form
      # @param profile [Profile]
      def initialize(profile)
        @profile = profile
      end

      # @return [String] a media type
      def type = "text/plain; charset=utf-8"

      # @return [Hash{String => String}] further header fields
      def fields = {}
    end
  end
end
