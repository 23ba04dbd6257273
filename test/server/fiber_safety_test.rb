# frozen_string_literal: true

require "test_helper"
require "abaca/fiber_safety"

# What is said about gems and frameworks that are there, with stand-ins for them.
class FiberSafetyTest < Minitest::Test
  Configuration = Struct.new(:adapter)

  def setup
    super
    @root = Module.new
    @versions = {}
  end

  # Defines a module by its path below the root.
  def define(path, value = nil)
    *outer, last = path.split("::")
    parent = outer.inject(@root) do |inside, name|
      inside.const_defined?(name, false) ? inside.const_get(name) : inside.const_set(name, Module.new)
    end
    parent.const_set(last, value || Module.new)
  end

  def install(name, version) = @versions[name] = Gem::Version.new(version)

  def isolate_by(level)
    define("ActiveSupport::IsolatedExecutionState", Struct.new(:isolation_level).new(level))
  end

  # Active Record with these adapters in the environment "production".
  def configure_adapters(*adapters)
    configurations = Object.new
    configurations.define_singleton_method(:configs_for) do |env_name:|
      raise ArgumentError, "of #{env_name}" unless env_name == "production"

      adapters.map { |adapter| Configuration.new(adapter) }
    end
    define("ActiveRecord::Base", Struct.new(:configurations).new(configurations))
    define("Rails", Struct.new(:env).new("production"))
  end

  def findings(ruby: "3.4.1")
    Abaca::FiberSafety.new(root: @root, versions: @versions.method(:[]), ruby:).findings
  end

  def subjects(**options) = findings(**options).map(&:subject)

  def test_nothing_is_said_about_nothing
    assert_empty findings
  end

  def test_isolation_by_thread
    isolate_by(:thread)
    finding = findings.first
    assert_equal "ActiveSupport with the isolation level :thread", finding.subject
    refute_includes finding.trouble, "database"
    assert_includes finding.to_s, "config.active_support.isolation_level = :fiber"
  end

  def test_isolation_by_thread_shares_connections_too
    isolate_by(:thread)
    configure_adapters("postgresql")
    assert_includes findings.first.trouble, "database connections"
  end

  def test_isolation_by_fiber_is_right
    isolate_by(:fiber)
    configure_adapters("trilogy", "postgresql")
    install("pg", "1.5.9")
    install("trilogy", "2.9.0")
    assert_empty findings
  end

  # An application that reloads, with a lock that has this variable.
  def reload_with(variable, enabled: true)
    isolate_by(:fiber)
    lock = Class.new { define_method(:initialize) { instance_variable_set(variable, nil) } }
    define("ActiveSupport::Concurrency::ShareLock", lock)
    config = Struct.new(:reloading_enabled?).new(enabled)
    define("Rails", Struct.new(:application).new(Struct.new(:config).new(config)))
  end

  def test_reloading_with_a_lock_that_counts_threads
    reload_with(:@exclusive_thread)
    assert_equal ["Rails with reloading"], subjects
  end

  def test_reloading_with_a_lock_that_knows_fibers
    reload_with(:@exclusive_owner)
    assert_empty findings
  end

  def test_no_reloading
    reload_with(:@exclusive_thread, enabled: false)
    assert_empty findings
  end

  def test_active_record_before_the_isolation_level
    configure_adapters("postgresql")
    assert_equal ["Active Record before 7.0"], subjects
  end

  # The adapter's gem is loaded only when Active Record first connects.
  def test_adapters_that_are_not_loaded_yet
    isolate_by(:fiber)
    configure_adapters("sqlite3", "sqlserver")
    install("sqlite3", "2.1.0")
    assert_equal ["sqlite3 2.1.0", "tiny_tds"], subjects
  end

  def test_a_configuration_that_cannot_be_read
    isolate_by(:fiber)
    configure_adapters("mysql2")
    @root.const_get(:Rails).env = "staging"
    assert_empty findings
  end

  # Versions that the table names, of gems that are right today.
  OLD = { "i18n" => "1.14.8", "pg" => "1.2.3", "curb" => "1.1.0", "mongoid" => "9.0.7" }.freeze

  def test_each_gem_of_the_table
    Abaca::FiberSafety::GEMS.group_by(&:name).each do |name, rows|
      setup
      define(rows.first.constant)
      install(name, OLD.fetch(name, "99.0"))
      finding = findings.first or flunk "nothing is said about #{name}"
      assert_equal name, finding.subject.split.first
      assert_match(/\S+ \S+ on fibers: .*; .*(mode :thread|use |busy_handler_timeout)/, finding.to_s)
    end
  end

  # It ends the server; others only keep it waiting.
  def test_rack_timeout_comes_first_of_gems
    define("SQLite3::Database")
    define("Rack::Timeout")
    assert_equal %w[rack-timeout sqlite3], subjects
  end

  # It holds Ruby's lock while it works.
  def test_threads_are_no_remedy_for_sqlite3
    define("SQLite3::Database")
    refute_includes findings.first.remedy, "thread"
  end

  def test_versions_that_are_right
    { "pg" => ["PG::Connection", "1.3.0"], "curb" => ["Curl::Easy", "1.2.0"], "chewy" => ["Chewy::Strategy", "7.2.2"],
      "mongoid" => ["Mongoid::Threaded", "9.1.0"], "i18n" => ["I18n", "1.15.2"] }.each do |name, (constant, version)|
      define(constant)
      install(name, version)
    end
    assert_empty findings
    assert_equal ["i18n 1.15.2"], subjects(ruby: "3.1.2")
  end

  # One cannot say that it is concerned.
  def test_a_version_that_is_not_known
    define("PG::Connection")
    assert_empty findings
    define("Mysql2::Client")
    assert_equal ["mysql2"], subjects
  end

  def test_a_constant_that_would_have_to_be_loaded
    define("BCrypt").autoload(:Engine, "a/file/that/is/not/there")
    assert_empty findings
  end
end
