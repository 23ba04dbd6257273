# frozen_string_literal: true

# A Hanami application: an action, parameters, an upload, a file, and an endpoint that streams.
require_relative "config/app"

Hanami.prepare
run Hanami.app
