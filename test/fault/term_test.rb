# frozen_string_literal: true

# also: rubies

require "test_helper"
require "support/process_case"
require "support/swarm"

# TERM in the middle of work: each head that the server has accepted gets a whole response.
class FaultTermTest < Minitest::Test
  include ProcessCase

  CLIENTS = 200
  # Counts its calls: with no errors of the engine's own these are the heads that were accepted.
  APP = <<~RUBY
    $calls = 0
    LOCK = Mutex.new
    at_exit { File.write("calls", $calls) }
    run(lambda do |_env|
      call = LOCK.synchronize { $calls += 1 }
      sleep(0.001 * (call % 20))
      body = call.even? ? ["x" * (call % 3_000)] : ["some", "more" * 100]
      [200, { "content-type" => "text/plain", "content-length" => body.sum(&:bytesize).to_s }, body]
    end)
  RUBY
  TRIES = Integer(ENV.fetch("TERM_TRIES", "3"))

  def test_no_request_is_lost
    TRIES.times { |try| assert_nothing_lost(400 + (try * 37 % 500)) }
  end

  def test_no_request_is_lost_as_a_guest
    scheduler = File.expand_path("../support/plain_scheduler.rb", __dir__)
    [300, 700].each do |responses|
      assert_nothing_lost(responses, "require #{scheduler.dump}\n", "--fiber-scheduler", "PlainScheduler")
    end
  end

  def test_no_request_is_lost_on_threads
    [300, 700].each { |responses| assert_nothing_lost(responses, "mode :thread\nthreads 0, 16\n") }
  end

  # While no fiber is free for most of them.
  def test_no_request_is_lost_when_most_of_them_wait
    assert_nothing_lost(300, "", "--max-fibers", "20")
  end

  private

  def assert_nothing_lost(responses, prelude = "", *arguments)
    command = run_abaca(APP, *arguments, config: prelude)
    swarm = Swarm.new(command.port, CLIENTS)
    swarm.run(responses) { command.signal(:TERM) }
    assert_equal 0, command.wait.exitstatus, command.text
    calls = Integer(File.read(File.join(@directory, "calls")))
    assert_equal [200], swarm.answered.keys
    assert_equal calls, swarm.answered[200], "requests without a response"
    assert_empty swarm.torn
    assert_equal 0, swarm.lost, "requests that were sent before TERM"
    assert_operator calls, :>=, responses
  ensure
    swarm&.close
  end
end
