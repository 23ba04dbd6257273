# frozen_string_literal: true

require_relative "../../lib/visitors"

Rails.application.config.middleware.use Visitors
