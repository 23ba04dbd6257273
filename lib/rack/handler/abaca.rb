# frozen_string_literal: true

require "rack/handler"
require "abaca/rack_handler"

module Rack
  module Handler
    # Rack 2: `rackup -s abaca`.
    Abaca = ::Abaca::RackHandler
    register :abaca, Abaca
  end
end
