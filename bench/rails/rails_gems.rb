# frozen_string_literal: true

module Bench
  # The gems of apps/rails.
  module RailsGems
    # @param ruby [Ruby]
    # @return [Gems] with the newest Rails that it takes
    # @raise [Unavailable] without what the driver of PostgreSQL is compiled with
    def self.of(ruby)
      Tools.find("pg_config") if ruby.here?
      # RubyGems before 3.3.22 does not know the platforms that newer ones are built for, and would compile it.
      old = Gem::Version.new(ruby.rubygems) < Gem::Version.new("3.3.22")
      Gems.new("railties", ruby: ruby, with: %w[activerecord sqlite3 pg rack], first: old ? ["nokogiri:<1.18"] : [])
    end
  end
end
