# frozen_string_literal: true

require "hanami"

module Parcels
  class App < Hanami::App
    config.logger.stream = $stderr
    config.logger.level = :fatal
    config.middleware.use :body_parser, :form
  end
end
