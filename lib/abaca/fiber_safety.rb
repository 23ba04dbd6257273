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
    # From these versions on, a handler in Ruby waits for locks in SQLite.
    SQLITE_HANDLER = Gem::Version.new("2.0")
    RAILS_HANDLER = Gem::Version.new("8.0")
    private_constant :THREADS, :ADAPTERS, :SQLITE_HANDLER, :RAILS_HANDLER

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
        next if row.name == "sqlite3" && waits_by_handler?(version)
        next if row.settled_in?(constant(row.constant))

        Finding.new(subject: [row.name, version].compact.join(" "), trouble: row.trouble,
                    remedy: [row.remedy, (THREADS if row.threads)].compact.join(", or "))
      end
    end

    # Active Record 8 waits for locks as advised here, if a timeout is configured, as in an app that Rails has
    # generated.
    def waits_by_handler?(version)
      return false unless version && version >= SQLITE_HANDLER && active_record_version >= RAILS_HANDLER

      own = configurations.select { |configuration| configuration.adapter == "sqlite3" }
      own.any? && own.all? { |configuration| configuration.configuration_hash[:timeout] }
    rescue StandardError
      false
    end

    def active_record_version = @versions.call("activerecord") || Gem::Version.new("0")

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
