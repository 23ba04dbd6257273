# frozen_string_literal: true

require "test_helper"
require "rbconfig"
require "tmpdir"

# Abaca as a server of Capybara's; what Capybara does with it is played here.
class CapybaraTest < Minitest::Test
  # As much of Capybara as a server meets. A process of its own, because it cannot be taken back.
  CAPYBARA = <<~RUBY
    module Capybara
      class << self
        attr_reader :server

        def servers = @servers ||= { default: proc { raise LoadError, "no puma" } }
        def register_server(name, &block) = servers[name] = block

        def server=(name)
          name, options = *name if name.is_a?(Array)
          @server = options ? proc { |*all, **more| servers[name].call(*all, **options, **more) } : servers[name]
        end
      end
      self.server = :default
    end
    def visit
      require "net/http"
      port = Addrinfo.tcp("127.0.0.1", 0).bind { |socket| socket.local_address.ip_port }
      app = ->(env) { [200, {}, ["\#{env['abaca.mode']} \#{Fiber.scheduler.inspect}"]] }
      Thread.new { Capybara.server.call(app, port, "127.0.0.1") }.report_on_exception = true
      begin
        Net::HTTP.get(URI("http://127.0.0.1:\#{port}/"))
      rescue Errno::ECONNREFUSED
        sleep 0.01
        retry
      end
    end

    # Capybara's thread serves to the end of the process.
    def finish(text)
      $stdout.write(text)
      $stdout.flush
      exit!(true)
    end
  RUBY

  # What the code prints.
  def run_code(code)
    output = IO.popen([RbConfig.ruby, *$LOAD_PATH.map { |path| "-I#{path}" }, "-e", code],
                      err: %i[child out], chdir: Dir.tmpdir, &:read)
    assert_predicate Process.last_status, :success?, output
    output
  end

  def test_it_serves_on_threads
    assert_equal "thread nil", run_code(<<~RUBY)
      #{CAPYBARA}
      require "abaca"
      Capybara.server = :abaca, { Silent: true }
      finish(visit)
    RUBY
  end

  def test_options
    said = run_code(<<~RUBY)
      require "abaca"
      #{CAPYBARA}
      require "abaca/capybara"
      Capybara.server = :abaca, { Threads: "1:1", mode: :fiber, workers: 0, daemon: false }
      finish(visit.split.first)
    RUBY
    assert_match(/fiber\z/, said)
    assert_match(%r{\ACapybara starting Abaca\.\.\.\n\* Abaca version: .*\n\* Listening on http://127\.0\.0\.1:\d+$},
                 said)
  end

  # Rails chooses Puma for its system tests when nobody has chosen; without Puma there is nobody to choose.
  def test_system_tests_of_rails
    rails = <<~RUBY
      require "abaca"
      #{CAPYBARA}
      module ActiveSupport; OrderedOptions = Class.new; end
      module ActionDispatch; module SystemTesting; Server = Struct.new(:silence_puma).new(true); end; end
      $LOADED_FEATURES << "active_support/ordered_options.rb"
      module Kernel
        alias real_require require
        def require(name) = name == "active_support/ordered_options" ? false : real_require(name)
      end
      module Rails
        class Railtie
          def self.config = Struct.new(:abaca) { def after_initialize = nil }.new
          def self.initializer(*, **) = nil
        end
      end
      require "abaca/railtie"
    RUBY
    assert_equal "thread nil", run_code("#{rails}Abaca::Railtie.serve_system_tests\nfinish(visit)")
    assert_equal "own", run_code(<<~RUBY)
      #{rails}
      Capybara.register_server(:own) { nil }
      Capybara.server = :own
      Abaca::Railtie.serve_system_tests
      print Capybara.server == Capybara.servers[:own] ? "own" : "not"
    RUBY
  end
end
