# frozen_string_literal: true

module Abaca
  # Active Record's pools of connections beside the number of requests that may run at once: the launcher says
  # at boot when the pools are smaller (docs/overload.md).
  module DatabasePools
    class << self
      # @param requests [Integer] that may be in the app at once
      # @param setting [String] the setting that says so
      # @param root [Module] where ActiveRecord is looked for; nothing is loaded
      # @return [Array<String>] a line for each database whose pool is smaller
      def smaller_than(requests, setting: "max_fibers", root: Object)
        configurations(root).filter_map do |configuration|
          size = size_of(configuration)
          next if size.nil? || size >= requests

          "#{setting} is #{requests}, and Active Record's pool `#{configuration.name}' has #{size} connections: " \
            "more requests than that wait for one, and fail after checkout_timeout; " \
            "set `#{setting} #{size}', or a larger pool in database.yml (docs/overload.md)"
        end
      end

      private

      # Those of this environment.
      def configurations(root)
        return [] if !root.const_defined?(:ActiveRecord, false) || root.autoload?(:ActiveRecord, false)

        base = root.const_get(:ActiveRecord).const_get(:Base)
        base.configurations.configs_for(env_name: environment(root)).to_a
      rescue StandardError
        [] # a configuration that Active Record cannot read is its own to complain of
      end

      def environment(root)
        rails = root.const_get(:Rails) if root.const_defined?(:Rails, false)
        rails.respond_to?(:env) ? rails.env.to_s : nil
      end

      # Its name is another one since Rails 8.1, where nil is no limit.
      def size_of(configuration)
        configuration.respond_to?(:max_connections) ? configuration.max_connections : configuration.pool
      end
    end
  end
end
