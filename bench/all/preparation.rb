# frozen_string_literal: true

require_relative "../servers/catalog"
require_relative "../rails/rails_gems"
require_relative "../scheduler/targets"

module Bench
  # What scenarios would otherwise install and compile within their time: programs, gems, clients. What cannot be had
  # has a row with the reason later.
  class Preparation
    PROGRAMS = %w[wrk ab h2load nghttp pg_config pg_createcluster].freeze

    # @param ruby [Ruby] of the servers
    # @param progress [#puts]
    def initialize(ruby:, progress: $stderr)
      @ruby = ruby
      @progress = progress
    end

    # @return [Hash{String => String}] what is missing, and why
    def run
      steps.filter_map do |name, step|
        step.call
        nil
      rescue Unavailable => e
        @progress.puts "#{name}: #{e.message}"
        [name, e.message]
      end.to_h
    end

    private

    def steps
      programs = PROGRAMS.to_h { |program| [program, -> { Tools.find(program) }] }
      servers = Catalog.pick(nil, ruby: @ruby).to_h { |server| [server.name, -> { server.prepare }] }
      gems = Targets::ALL.filter_map(&:gem).to_h { |gem| [gem, -> { Gems.new(gem, ruby: @ruby, with: []).install }] }
      { **programs, **servers, **gems, "rails" => -> { RailsGems.of(@ruby).install } }
    end
  end
end
