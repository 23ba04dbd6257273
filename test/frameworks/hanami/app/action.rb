# frozen_string_literal: true

require "hanami/action"

module Parcels
  # What all actions share.
  class Action < Hanami::Action
  end
end
