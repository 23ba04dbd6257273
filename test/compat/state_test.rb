# frozen_string_literal: true

# also: rubies

require "test_helper"
require "support/process_case"
require "support/server_case"

# Gems that keep state of requests in variables of the thread. They are told by what they do, so stand-ins do it here.
class StateTest < Minitest::Test
  include ProcessCase

  I18N = <<~RUBY
    module I18n
      class Config; attr_accessor :locale; end
      module Base
        def config
          Thread.current.thread_variable_get(:i18n_config) || Thread.current.thread_variable_set(:i18n_config, Config.new)
        end
        def config=(value); Thread.current.thread_variable_set(:i18n_config, value); end
      end
      extend Base
    end
    RIGHT = Queue.new
    LEFT = Queue.new
    run(lambda do |env|
      mine, other = env["PATH_INFO"] == "/left" ? [LEFT, RIGHT] : [RIGHT, LEFT]
      I18n.config.locale = env["PATH_INFO"]
      other << true
      mine.pop
      [200, {}, [I18n.config.locale]]
    end)
  RUBY

  CHEWY = <<~RUBY
    module Chewy
      class Strategy
        def initialize = @stack = [:base]
        def current = @stack.last
        def wrap(name)
          @stack.push(name)
          yield
        ensure
          @stack.pop
        end
      end
      class << self
        def current = Thread.current.thread_variable_get(:chewy) || Thread.current.thread_variable_set(:chewy, {})
        def client = current[:chewy_client] ||= Object.new
        def strategy = current[:chewy_strategy] ||= Strategy.new
      end
    end
    RIGHT = Queue.new
    LEFT = Queue.new
    run(lambda do |env|
      mine, other = env["PATH_INFO"] == "/left" ? [LEFT, RIGHT] : [RIGHT, LEFT]
      Chewy.strategy.wrap(env["PATH_INFO"]) do
        other << true
        mine.pop
        seen = "\#{Chewy.strategy.current} \#{Chewy.client.object_id}"
        other << true # who came last leaves first, so it stays until the other has looked
        mine.pop
        [200, {}, [seen]]
      end
    end)
  RUBY

  MONGOID = <<~RUBY
    module Mongoid
      VERSION = "9.0.11"
      module Config; end
      module Threaded
        def self.get(key) = Thread.current.thread_variable_get(key)
        def self.set(key, value) = Thread.current.thread_variable_set(key, value)
      end
    end
    run ->(_env) { [200, {}, ["x"]] }
  RUBY

  # Before 7.0.
  SENTRY = <<~RUBY
    module Sentry
      class Hub
        attr_accessor :user
        def clone = Hub.new.tap { |hub| hub.user = user }
      end
      class Configuration
        def initialize = yield(self)
      end
      class << self
        attr_reader :get_main_hub, :configuration
        def init(&block)
          @configuration = Configuration.new(&block)
          set_current_hub_internal(@get_main_hub = Hub.new)
        end
        def initialized? = !get_main_hub.nil?
        def get_current_hub = get_current_hub_internal || clone_hub_to_current_thread
        def clone_hub_to_current_thread = initialized? ? set_current_hub_internal(get_main_hub.clone) : nil
        def get_current_hub_internal = Thread.current.thread_variable_get(:sentry_hub)
        def set_current_hub_internal(hub) = Thread.current.thread_variable_set(:sentry_hub, hub)
      end
    end
  RUBY
  # From 7.0 on.
  SENTRY_LEVELS = <<~RUBY
    class Sentry::Configuration
      attr_reader :hub_isolation_level
      def hub_isolation_level=(level)
        @hub_isolation_level = Fiber.respond_to?(:[]) ? level : :thread
      end
    end
    class << Sentry
      prepend(Module.new do
        def init(&block) = super { |config| (config.hub_isolation_level = :thread).then { block.call(config) } }
        def get_current_hub_internal
          return super unless level == :fiber
          owner, hub = Fiber[:sentry_hub]
          owner.equal?(Fiber.current) ? hub : hub && set_current_hub_internal(hub.clone)
        end
        def set_current_hub_internal(hub)
          return super unless level == :fiber
          Fiber[:sentry_hub] = [Fiber.current, hub]
          hub
        end
        def level = @hub_isolation_level ||= configuration&.hub_isolation_level
      end)
    end
  RUBY
  # As Sentry's middleware does. AT says when Sentry is initialized.
  REPORTS = <<~RUBY
    def initialize_sentry
      Sentry.init { |config| nil }
      Sentry.get_current_hub.user = "nobody"
    end
    initialize_sentry if AT == :boot
    RIGHT = Queue.new
    LEFT = Queue.new
    run(lambda do |env|
      initialize_sentry unless Sentry.initialized?
      mine, other = env["PATH_INFO"] == "/left" ? [LEFT, RIGHT] : [RIGHT, LEFT]
      Sentry.clone_hub_to_current_thread
      before = Sentry.get_current_hub.user
      Sentry.get_current_hub.user = env["PATH_INFO"]
      other << true
      mine.pop
      [200, {}, ["\#{before} \#{Sentry.get_current_hub.user}"]]
    end)
  RUBY

  def test_a_locale_is_the_request_s_own
    [[], %w[--mode thread]].each do |mode|
      assert_equal %w[/left /right], both_at_once(I18N, *mode)
    end
  end

  def test_a_strategy_is_the_request_s_own
    [[], %w[--mode thread]].each do |mode|
      strategies = both_at_once(CHEWY, *mode).map { |body| body.split.first }
      assert_equal %w[/left /right], strategies
    end
  end

  # It has connections.
  def test_the_client_of_the_strategies_is_the_thread_s
    assert_equal 1, both_at_once(CHEWY).map { |body| body.split.last }.uniq.size
  end

  def test_a_report_has_the_user_of_its_request
    modes = [[], %w[--mode hybrid], %w[--mode thread]]
    [SENTRY, SENTRY + SENTRY_LEVELS].product(%i[boot request], modes) do |sentry, at, mode|
      assert_equal ["nobody /left", "nobody /right"], both_at_once("AT = :#{at}\n#{sentry}#{REPORTS}", *mode)
    end
  end

  # Puma runs it on the thread that has initialized Sentry.
  def test_a_hook_changes_the_hub_that_requests_begin_with
    [SENTRY, SENTRY + SENTRY_LEVELS].each do |sentry|
      config = "after_booted { Sentry.get_current_hub.user = 'hook' }"
      assert_equal ["hook /left", "hook /right"], both_at_once("AT = :boot\n#{sentry}#{REPORTS}", config:)
    end
  end

  def test_sessions_of_the_thread_are_refused
    command = run_abaca(MONGOID)
    assert_equal 1, command.wait.exitstatus
    assert_match(/\Aabaca: Mongoid 9\.0\.11 keeps its sessions by thread.* `mode :thread'\n\z/, command.said)
    assert run_abaca(MONGOID, "--mode", "thread").port
  end

  def test_sessions_of_the_fiber_are_fine
    assert run_abaca(MONGOID.gsub(/thread_variable_(get|set)/, "[]").gsub("[](key, value)", "[]=(key, value)")).port
  end

  private

  # The answers to two requests that wait for each other.
  def both_at_once(app, *arguments, **options)
    command = run_abaca(app, *arguments, **options)
    clients = %w[/left /right].map do |path|
      connect(command.port).write("GET #{path} HTTP/1.1\r\nHost: a.test\r\n\r\n")
    end
    clients.map { |client| client.read.body }
  end
end
