# frozen_string_literal: true

# also: rubies

require "test_helper"
require "support/process_case"

# The command with --fiber-scheduler, and fiber_scheduler in a configuration file.
class GuestCommandTest < Minitest::Test
  include ProcessCase

  SCHEDULERS = "require #{File.expand_path('../support/plain_scheduler', __dir__).dump}\n".freeze
  APP = <<~RUBY
    run(lambda do |env|
      case env["PATH_INFO"]
      when "/slow" then warn("begins") || sleep(0.5)
      when "/lasting" then begin warn("begins") || sleep; ensure warn("is broken off") end
      when "/background" then Fiber.schedule { sleep }
      when "/stubborn" then Fiber.schedule { loop { begin sleep; rescue Exception; nil end } }
      when "/exit" then exit 3
      when "/exit_on_a_thread" then Thread.new { exit 3 } # which Ruby raises in the main thread
      end
      [200, { "content-type" => "text/plain" }, [Fiber.scheduler.class.name]]
    end)
  RUBY
  GET = "GET %s HTTP/1.1\r\nHost: a.test\r\n\r\n"

  def test_term_lets_requests_finish
    %w[PlainScheduler TransferringScheduler].each do |name|
      command = run_abaca(SCHEDULERS + APP, "--fiber-scheduler", name)
      client = connect(command.port).write(format(GET, "/slow"))
      command.wait_for(/^begins$/)
      assert_equal name, connect(command.port).call(format(GET, "/")).body
      command.signal(:TERM)
      assert_equal name, client.read.body
      assert_equal 0, command.wait.exitstatus, command.text
      assert_match(/^\* +Scheduler: #{name}$/, command.text)
      assert_match(/^- Goodbye!$/, command.text)
    end
  end

  # The first time only, the fiber that the app has started would have ten minutes.
  def test_int_twice_ends_at_once
    patience = "Abaca::Guest.send(:remove_const, :GRACE)\nAbaca::Guest::GRACE = 600\n"
    command = run_abaca(SCHEDULERS + patience + APP, "--fiber-scheduler", "PlainScheduler")
    connect(command.port).call(format(GET, "/background"))
    [/^- Gracefully stopping/, /^\* Stopping immediately/].each do |answer|
      command.signal(:INT)
      command.wait_for(answer)
    end
    assert_equal 0, command.wait.exitstatus, command.text
  end

  # They have five seconds, and no more.
  def test_fibers_that_nobody_waits_for_do_not_keep_it
    commands = %w[/background /stubborn].flat_map do |path|
      %w[PlainScheduler TransferringScheduler].map do |name|
        command = run_abaca(SCHEDULERS + APP, "--fiber-scheduler", name)
        assert_equal name, connect(command.port).call(format(GET, path)).body
        command.tap { |started| started.signal(:TERM) }
      end
    end
    commands.each { |command| assert_equal 0, command.wait.exitstatus, command.text }
  end

  def test_exit_in_a_request_ends_it
    command = run_abaca(SCHEDULERS + APP, "--fiber-scheduler", "PlainScheduler")
    assert_equal 500, connect(command.port).call(format(GET, "/exit")).status
    assert_equal 3, command.wait.exitstatus, command.text
  end

  # As the second signal does: what the app has to clean up is cleaned up.
  def test_exit_breaks_off_other_requests
    %w[PlainScheduler TransferringScheduler].product(["", "routes { thread '/exit' }"]) do |name, config|
      command = run_abaca(SCHEDULERS + APP, "--fiber-scheduler", name, config: config)
      client = connect(command.port).write(format(GET, "/lasting"))
      command.wait_for(/^begins$/)
      assert_equal 500, connect(command.port).call(format(GET, "/exit")).status
      assert_equal 503, client.read.status
      assert_equal 3, command.wait.exitstatus, command.text
      assert_match(/^is broken off$/, command.text)
    end
  end

  # It comes to the scheduler, which would go on with the fibers that it has.
  def test_exit_on_a_thread_of_the_app
    %w[PlainScheduler TransferringScheduler].each do |name|
      command = run_abaca(SCHEDULERS + APP, "--fiber-scheduler", name)
      client = connect(command.port).write(format(GET, "/lasting"))
      command.wait_for(/^begins$/)
      connect(command.port).write(format(GET, "/exit_on_a_thread"))
      assert_equal 503, client.read.status
      assert_equal 3, command.wait.exitstatus, command.text
      assert_match(/^is broken off$/, command.text)
    end
  end

  # Nor do fibers of the app's then have the time that a graceful stop gives them: ten minutes here.
  def test_exit_beside_fibers_that_nobody_waits_for
    patience = "Abaca::Guest.send(:remove_const, :GRACE)\nAbaca::Guest::GRACE = 600\n"
    command = run_abaca(SCHEDULERS + patience + APP, "--fiber-scheduler", "PlainScheduler")
    connect(command.port).call(format(GET, "/background"))
    connect(command.port).call(format(GET, "/exit"))
    assert_equal 3, command.wait.exitstatus, command.text
  end

  def test_in_a_configuration_file
    command = run_abaca(APP, config: "#{SCHEDULERS}fiber_scheduler PlainScheduler\n")
    assert_equal "PlainScheduler", connect(command.port).call(format(GET, "/")).body
  end

  def test_a_class_that_is_loaded_by_its_name
    File.write(File.join(@directory, "my_house.rb"), "#{SCHEDULERS}module MyHouse; Timetable = PlainScheduler; end\n")
    command = run_abaca(APP, "-I", ".", "--fiber-scheduler", "MyHouse::Timetable")
    assert_equal "PlainScheduler", connect(command.port).call(format(GET, "/")).body
  end

  def test_mistakes
    { "Nobody::Scheduler" => /there is no Nobody::Scheduler; is its gem in the Gemfile\?/,
      "async scheduler" => /"async scheduler" is no name of a class/,
      "String" => /String is no Fiber::Scheduler: it has no block/,
      "Comparable" => /Comparable is no class/ }.each { |name, message| assert_refused(message, name) }
  end

  def test_a_scheduler_of_another_ruby
    assert_refused(/Other does not support Ruby \d.* here/, "Other", <<~RUBY)
      class Other < PlainScheduler
        def self.supported? = false
      end
    RUBY
    assert_refused(/Other cannot be made without arguments: an older version, for another Ruby\?/, "Other", <<~RUBY)
      class Other < PlainScheduler
        def initialize(reactor) = super()
      end
    RUBY
    assert_refused(/Other cannot be used: no io_uring here \(NotImplementedError\)/, "Other", <<~RUBY)
      class Other < PlainScheduler
        def initialize(*) = raise(NotImplementedError, "no io_uring here")
      end
    RUBY
  end

  def test_a_library_that_does_not_load
    File.write(File.join(@directory, "other.rb"), "require 'what/is/not/there'\n")
    assert_refused(%r{Other cannot be loaded: cannot load such file -- what/is/not/there}, "Other", "", "-I", ".")
  end

  private

  def assert_refused(message, name, code = "", *arguments)
    command = run_abaca(SCHEDULERS + code + APP, *arguments, "--fiber-scheduler", name)
    assert_equal 1, command.wait.exitstatus, command.text
    lines = command.text.lines.grep(/\Aabaca: /)
    assert_equal 1, lines.size, command.text
    assert_match(/\Aabaca: fiber_scheduler: /, lines.first)
    assert_match message, lines.first
  end
end
