# frozen_string_literal: true

# also: rubies

require "test_helper"
require "support/server_case"

# Hooks that are called after a request, when there is no other.
class OutOfBandTest < Minitest::Test
  include ServerCase

  MODES = %w[fiber thread routed hybrid guest:PlainScheduler].freeze
  def setup
    super
    @calls = Queue.new
    @gate = gate = Queue.new
    @app = lambda do |env|
      gate.pop if env["PATH_INFO"] == "/wait"
      [200, TYPE.dup, ["hello\n"]]
    end
  end

  def start(mode, **options, &hook)
    serve(@app, **ServerCase.mode_options(mode), out_of_band: [hook], **options)
  end

  def called?(times) = eventually { @calls.size == times }

  MODES.each do |mode|
    name = mode.downcase.tr(":", "_")

    define_method("test_after_the_last_request_#{name}") do
      running = start(mode) { @calls << Process.pid }
      caught_up(running)
      assert_empty @calls
      waiting = connect(running)
      waiting.write(request("GET", "/wait"))
      assert eventually { @gate.num_waiting == 1 }
      3.times { assert_equal "hello\n", ask(running).body }
      caught_up(running)
      assert_empty @calls
      @gate << :go
      assert_equal "hello\n", waiting.read.body
      assert called?(1)
      assert_equal "hello\n", waiting.call(GET).body
      assert called?(2)
      assert_equal [Process.pid], Array.new(2) { @calls.pop }.uniq
    end

    define_method("test_no_request_begins_meanwhile_#{name}") do
      running = start(mode) { @calls << @gate.pop }
      kept = connect(running)
      kept.call(GET)
      assert eventually { @gate.num_waiting == 1 }
      kept.write(GET)
      fresh = connect(running)
      fresh.write(GET)
      assert eventually { running.server.stats[:waiting] == 1 }
      assert_equal [1, 0, 1], running.server.stats.values_at(:requests, :in_app, :connections)
      @gate.close
      assert_equal %W[hello\n hello\n], [kept, fresh].map { |client| client.read.body }
      assert eventually { @calls.size >= 2 }
    end

    define_method("test_what_they_raise_is_logged_#{name}") do
      running = start(mode) { raise Exception, "broken" } # rubocop:disable Lint/RaiseException -- any may come
      2.times do |i|
        assert_equal "hello\n", ask(running).body
        assert running.logged?(/(out_of_band at .*out_of_band_test.rb:\d+ failed: broken \(Exception\).*){#{i + 1}}/m)
      end
    end
  end

  # Those that wait get their answers.
  def test_a_stop_meanwhile
    done = Queue.new
    running = start("fiber") { @calls << done.pop }
    client = connect(running)
    client.call(GET)
    assert eventually { done.num_waiting == 1 }
    client.write(GET)
    assert eventually { running.server.stats[:waiting] == 1 }
    running.server.stop
    done << :go
    assert_equal 200, client.read.status
    running.stop
    assert_equal 1, @calls.size
  end

  # A server does not wait for them for ever.
  def test_one_that_does_not_end
    with_grace(0.01) do
      running = start("fiber", shutdown_timeout: 0.01) do
        @calls << Thread.current
        sleep
      end
      ask(running)
      assert called?(1)
      running.stop
      refute_predicate @calls.pop, :alive?
    end
  end

  def with_grace(seconds)
    before = Abaca::OutOfBand::GRACE
    replace_grace(seconds)
    yield
  ensure
    replace_grace(before)
  end

  def replace_grace(seconds)
    Abaca::OutOfBand.send(:remove_const, :GRACE)
    Abaca::OutOfBand.const_set(:GRACE, seconds)
  end
end
