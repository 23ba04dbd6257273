# frozen_string_literal: true

require_relative "fiber_safety/table"

module Abaca
  # Finds loaded code that was written for threads and does not work on fibers: what happens, and the setting that
  # helps. The launcher logs each finding once, after it has loaded the app (docs/fiber_safety.md). What can be made
  # safe is not here: see compat.rb.
  class FiberSafety
    # subject:: what was found, such as "mysql2 0.5.7"
    # trouble:: what happens, a clause
    # remedy:: what to do, a clause
    Finding = Struct.new(:subject, :trouble, :remedy, keyword_init: true) do
      def to_s = "#{subject} on fibers: #{trouble}; #{remedy}"
    end

    # What helps against everything here.
    THREADS = "serve the paths that use it with `mode :thread' or `routes { thread \"/path/*\" }'"
    # Active Record's adapters whose gem has another name.
    ADAPTERS = { "sqlserver" => "tiny_tds" }.freeze
    private_constant :THREADS, :ADAPTERS

    # @param root [Module] where the constants of gems and frameworks are looked up
    # @param versions [#call] takes the name of a gem and returns its Gem::Version, nil when it is not loaded
    # @param ruby [String] the version of Ruby
    def initialize(root: Object, versions: ->(name) { Gem.loaded_specs[name]&.version }, ruby: RUBY_VERSION)
      @root = root
      @versions = versions
      @ruby = Gem::Version.new(ruby)
    end

    # @return [Array<Finding>] what is loaded now and does not work on fibers
    def findings = gems

    private

    def gems
      GEMS.filter_map do |row|
        version = @versions.call(row.name)
        next unless (adapters.include?(row.name) || constant(row.constant)) && row.for?(version, @ruby)

        Finding.new(subject: [row.name, version].compact.join(" "), trouble: row.trouble,
                    remedy: [row.remedy, THREADS].compact.join(", or "))
      end
    end

    # The gems of the databases that Active Record is configured for: it loads them when it first connects.
    def adapters
      @adapters ||= active_record? ? configured_adapters : []
    end

    def configured_adapters
      configurations.map { |configuration| ADAPTERS.fetch(configuration.adapter, configuration.adapter) }
    rescue StandardError
      [] # Active Record itself reports a configuration that it cannot read
    end

    def configurations
      rails = constant("Rails")
      name = rails.respond_to?(:env) ? rails.env.to_s : nil
      constant("ActiveRecord::Base").configurations.configs_for(env_name: name).to_a
    end

    def active_record? = !constant("ActiveRecord::Base").nil?

    # The value of a constant that is loaded; loads nothing.
    def constant(path)
      path.split("::").inject(@root) do |parent, name|
        return nil if !parent.const_defined?(name, false) || parent.autoload?(name, false)

        parent.const_get(name, false)
      end
    end
  end
end
