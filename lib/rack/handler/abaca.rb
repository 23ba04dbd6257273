# frozen_string_literal: true

require "rack/handler"
require "abaca/rack_handler"

module Rack
  module Handler
    # Rack 2: `rackup -s abaca`. Rails shows its name: "Booting Abaca".
    module Abaca
      extend ::Abaca::RackHandler
    end
    # By name: Rack 2 looks the class up from here, where `Abaca` is this constant.
    register :abaca, "Rack::Handler::Abaca"
  end
end
