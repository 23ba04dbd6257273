# frozen_string_literal: true

# also: rubies

require "test_helper"
require "abaca/rails_boot"
require "tmpdir"

# How the server's mode gets to a Rails app; test/frameworks/rails_isolation_test.rb has a real one.
class RailtieTest < Minitest::Test
  # Rails, as far as the Railtie goes. A process of its own, because it cannot be taken back.
  RAILS = <<~RUBY
    require "abaca"
    module ActiveSupport; OrderedOptions = Struct.new(:mode, :isolation_level); end
    $LOADED_FEATURES << "active_support/ordered_options.rb"
    module Kernel
      alias real_require require
      def require(name) = name == "active_support/ordered_options" ? false : real_require(name)
    end
    def rails
      eval <<~RAILS
        module Rails
          class Railtie
            def self.config = @config ||= Struct.new(:abaca, :active_support) { def after_initialize = nil }.new
            def self.initializer(*, **) = nil
            ORDER << :defined
          end
          ORDER << defined?(Abaca::Railtie)
        end
      RAILS
    end
    ORDER = []
    def level(mode: nil, own: nil)
      options = ActiveSupport::OrderedOptions
      config = Struct.new(:abaca, :active_support).new(options.new(mode), options.new(nil, own))
      Abaca::Railtie.isolate(config)
      config.active_support.isolation_level
    end
  RUBY

  # What the code prints, run beside a Rails.
  def run_code(code)
    output = IO.popen([RbConfig.ruby, *$LOAD_PATH.map { |path| "-I#{path}" }, "-e", RAILS + code],
                      err: %i[child out], chdir: Dir.tmpdir, &:read)
    assert_predicate Process.last_status, :success?, output
    output
  end

  def test_it_comes_with_rails_and_not_before
    assert_equal "[nil, :defined, \"constant\"]", run_code(<<~RUBY)
      Abaca::RailsBoot.with_mode(:fiber) { ORDER << defined?(Abaca::Railtie); rails }
      print ORDER.inspect
    RUBY
  end

  def test_an_app_without_rails_leaves_no_trace
    assert_equal "app nil", run_code(<<~RUBY)
      print Abaca::RailsBoot.with_mode(:fiber) { "app" }, " "
      rails
      print defined?(Abaca::Railtie).inspect
    RUBY
  end

  def test_the_level_follows_the_mode
    assert_equal "fiber nil", run_code(<<~RUBY)
      rails
      levels = %i[fiber thread].map { |mode| Abaca::RailsBoot.with_mode(mode) { level } }
      print levels.map { |found| found || "nil" }.join(" ")
    RUBY
  end

  def test_what_the_app_says_counts
    assert_equal "thread fiber nil", run_code(<<~RUBY)
      rails
      found = Abaca::RailsBoot.with_mode(:fiber) { [level(own: :thread), level(mode: "fiber"), level(mode: :thread)] }
      print found.map { |level| level || "nil" }.join(" ")
    RUBY
  end

  def test_no_server_no_level
    assert_equal "nil", run_code("rails\nrequire 'abaca/railtie'\nprint level.inspect")
  end

  def test_the_rack_handler_is_a_server_to_be
    assert_equal "fiber", run_code("rails\nrequire 'abaca/railtie'\nAbaca::RackHandler\nprint level")
  end

  def test_a_mode_that_is_none
    assert_match(/config\.abaca\.mode: .*:fibre/, run_code(<<~RUBY))
      rails
      require "abaca/railtie"
      begin
        level(mode: :fibre)
      rescue Abaca::ConfigError => e
        print e.message
      end
    RUBY
  end
end
