# frozen_string_literal: true

# also: rubies

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

  def test_databases_that_are_right
    configure_adapters("trilogy", "postgresql", "sqlite3") # what wants more waits in the server's queue
    install("pg", "1.5.9")
    install("trilogy", "2.9.0")
    assert_empty findings
  end

  # The adapter's gem is loaded only when Active Record first connects.
  def test_adapters_that_are_not_loaded_yet
    configure_adapters("mysql2", "sqlserver")
    install("mysql2", "0.5.7")
    assert_equal ["mysql2 0.5.7", "tiny_tds"], subjects
  end

  def test_a_configuration_that_cannot_be_read
    configure_adapters("mysql2")
    @root.const_get(:Rails).env = "staging"
    assert_empty findings
  end

  # Versions that the table names, of gems that are right today.
  OLD = { "pg" => "1.2.3", "curb" => "1.1.0" }.freeze

  def test_each_gem_of_the_table
    Abaca::FiberSafety::GEMS.group_by(&:name).each do |name, rows|
      setup
      define(rows.first.constant)
      install(name, OLD.fetch(name, "99.0"))
      finding = (findings + findings(ruby: "3.1.2")).first or flunk "nothing is said about #{name}"
      assert_equal name, finding.subject.split.first
      assert_match(/\S+ \S+ on fibers: .*; .*(mode :thread|use )/, finding.to_s)
    end
  end

  # They have adapters, or keep their state apart.
  def test_nothing_is_said_about_what_is_safe
    %w[Rack::Timeout Chewy::Strategy Sentry::Hub Grape::API Grape::Railtie].each { |constant| define(constant) }
    assert_empty findings
  end

  def test_versions_that_are_right
    { "pg" => ["PG::Connection", "1.3.0"], "curb" => ["Curl::Easy", "1.2.0"] }.each do |name, (constant, version)|
      define(constant)
      install(name, version)
    end
    assert_empty findings
  end

  # Ruby 3.1 has no storage of fibers, and does not hand IO.select over.
  def test_what_a_later_ruby_does_right
    define("Mongo::Client")
    install("mongo", "2.26.0")
    assert_empty findings(ruby: "3.2.0")
    assert_equal ["mongo 2.26.0"], subjects(ruby: "3.1.7")
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
