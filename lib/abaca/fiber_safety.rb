# frozen_string_literal: true

require_relative "fiber_safety/table"

module Abaca
  # Code that was written for threads and finds itself on fibers: what of it is loaded, what happens then, and
  # the setting that helps. The launcher says it once, after the app has been loaded (docs/fiber_safety.md).
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

    # @return [Array<Finding>] what is loaded now and breaks on fibers, the worst first
    def findings = [isolation, reloading, *gems].compact

    private

    # State that crosses from request to request is worse than anything that only takes long.
    def isolation
      if (state = constant("ActiveSupport::IsolatedExecutionState"))
        by_thread if state.isolation_level == :thread
      elsif constant("ActiveRecord::Base")
        Finding.new(subject: "Active Record before 7.0", remedy: THREADS,
                    trouble: "its connections belong to the thread, and transactions of several requests mix on them")
      end
    end

    def by_thread
      Finding.new(
        subject: "ActiveSupport with the isolation level :thread",
        trouble: "requests at the same time share CurrentAttributes#{' and database connections' if active_record?}",
        remedy: "set config.active_support.isolation_level = :fiber (config.abaca.mode = :fiber does), or " \
                "serve with `mode :thread'"
      )
    end

    # The lock that keeps the reloader from requests counts who is inside: by the thread, until Rails learned better.
    def reloading
      lock = constant("ActiveSupport::Concurrency::ShareLock")
      return unless reloads? && lock&.new&.instance_variable_defined?(:@exclusive_thread)

      Finding.new(subject: "Rails with reloading", remedy: "develop with `mode :thread'",
                  trouble: "a file that has changed takes the constants away from requests that wait")
    end

    def reloads?
      rails = constant("Rails")
      return false unless rails.respond_to?(:application) && rails.application

      config = rails.application.config
      config.respond_to?(:reloading_enabled?) ? config.reloading_enabled? : !config.cache_classes
    end

    def gems
      GEMS.filter_map do |row|
        version = @versions.call(row.name)
        next unless (adapters.include?(row.name) || constant(row.constant)) && row.for?(version, @ruby)

        Finding.new(subject: [row.name, version].compact.join(" "), trouble: row.trouble,
                    remedy: [row.remedy, (THREADS if row.threads)].compact.join(", or "))
      end
    end

    # The gems of the databases that Active Record is configured for: it loads them when it first connects.
    def adapters
      @adapters ||= active_record? ? configured_adapters : []
    end

    def configured_adapters
      base = constant("ActiveRecord::Base")
      rails = constant("Rails")
      configurations = base.configurations.configs_for(env_name: rails.respond_to?(:env) ? rails.env.to_s : nil)
      configurations.map { |configuration| ADAPTERS.fetch(configuration.adapter, configuration.adapter) }
    rescue StandardError
      [] # a configuration that Active Record cannot read is its own to complain of
    end

    def active_record? = !constant("ActiveRecord::Base").nil?

    # The value of a constant that is loaded; nothing is loaded for it.
    def constant(path)
      path.split("::").inject(@root) do |parent, name|
        return nil if !parent.const_defined?(name, false) || parent.autoload?(name, false)

        parent.const_get(name, false)
      end
    end
  end
end
