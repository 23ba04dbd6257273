# frozen_string_literal: true

require "rackup/handler"
require "abaca/rack_handler"

module Rackup
  module Handler
    # Rack 3: `rackup -s abaca`.
    Abaca = ::Abaca::RackHandler
    register :abaca, Abaca
  end
end
