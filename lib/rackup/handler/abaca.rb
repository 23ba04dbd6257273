# frozen_string_literal: true

require "rackup/handler"
require "abaca/rack_handler"

module Rackup
  module Handler
    # Rack 3: `rackup -s abaca`. Rails shows its name: "Booting Abaca".
    module Abaca
      extend ::Abaca::RackHandler
    end
    register :abaca, Abaca
  end
end
