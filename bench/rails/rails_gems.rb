# frozen_string_literal: true

module Bench
  # The gems of an application in Rails: the newest ones that this Ruby takes.
  class RailsGems < Gems
    GEMS = %w[activerecord actioncable sqlite3 pg rack].freeze

    # @param ruby [Ruby]
    # @raise [Unavailable] without what the driver of PostgreSQL is compiled with
    def self.of(ruby)
      Tools.find("pg_config") if ruby.here?
      # RubyGems before 3.3.22 does not know the platforms that newer ones are built for, and would compile it.
      old = Gem::Version.new(ruby.rubygems) < Gem::Version.new("3.3.22")
      new("railties", ruby: ruby, with: [*("nokogiri:<1.18" if old), *GEMS])
    end

    # @return [Hash] variables of a server with such an application: it has its own gems, and these
    def production = { "GEM_PATH" => env["GEM_PATH"], "RAILS_ENV" => "production", "RACK_ENV" => "production" }
  end
end
