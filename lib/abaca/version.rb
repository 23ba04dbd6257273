# frozen_string_literal: true

# A Rack server that runs each request on a pooled fiber over a native event loop.
module Abaca
  VERSION = "0.1.0"
end
