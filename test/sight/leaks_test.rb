# frozen_string_literal: true

require_relative "../test_helper"
require_relative "../support/sight_case"

# However a request ends, its row is given back, and its states' sums are its duration.
class LeaksTest < Minitest::Test
  include SightCase

  MODES = %w[fiber thread hybrid guest:PlainScheduler].freeze
  FIBERS = %w[fiber hybrid].freeze

  # An app whose path is the name of what it does.
  class App < SightCase::App
    private

    def raise_first(_env) = raise("at once")

    def raise_in_wait(_env)
      Abaca.waiting(:pool) { raise("within") }
    end

    def raise_later(_env)
      Kernel.sleep(0.02)
      raise "after a wait"
    end

    def throw_out(_env) = throw(:nowhere)

    def nested(_env)
      Abaca.waiting(:pool) do
        Kernel.sleep(0.05)
        Abaca.waiting(:db) { Kernel.sleep(0.1) }
        begin
          Abaca.waiting(:cache) { raise IOError }
        rescue IOError
          Kernel.sleep(0.05)
        end
      end
      Kernel.sleep(0.05)
    end

    # Returns from the block, and with it from the method.
    def leave_block(_env)
      Abaca.waiting(:pool) { return Kernel.sleep(0.02) }
    end

    def fork_and_wait(_env)
      pid = fork { exit!(0) }
      Process.wait(pid)
    end

    # The child comes back into the server, which ends it there.
    def fork_and_return(_env)
      pid = fork
      Process.wait(pid) if pid
    end

    def raise_into(_env)
      fiber = Fiber.current
      Fiber.schedule do
        Kernel.sleep(0.05)
        fiber.raise(IOError, "from another fiber")
      end
      Kernel.sleep(5)
    end

    def outlive(_env)
      fiber = Fiber.new { Kernel.sleep(0.2) }
      Fiber.schedule { fiber.resume }
    end

    # A fiber that it has resumed waits, while the request ends by an exception.
    def resumed(_env)
      Fiber.new(blocking: false) { Kernel.sleep(0.05) }.resume
      raise "after it"
    end

    def kill_thread(_env) = Thread.current.kill
  end

  ENDS = %w[/raise_first /raise_in_wait /raise_later /throw_out /leave_block /fork_and_wait /fork_and_return].freeze

  MODES.each do |mode|
    define_method("test_no_end_leaves_a_row_in_mode_#{mode.tr(':', '_')}") do
      serve(mode) do |server|
        ENDS.each { |path| check(server, mode, path) }
        assert_equal 200, status(server, "/"), mode
        assert_idle(server, mode)
      end
    end

    define_method("test_nested_words_in_mode_#{mode.tr(':', '_')}") do
      serve(mode) do |server|
        sums = check(server, mode, "/nested")
        assert_operator sums[:pool], :>=, 0.09, "#{mode} #{sums}"
        assert_operator sums[:db], :>=, 0.09, "#{mode} #{sums}"
        assert_operator sums.fetch(:cache, 0), :<, 0.05, "#{mode} #{sums}"
        assert_operator sums[:pool], :<, sums.values.sum - sums[:db] - 0.04, "#{mode} #{sums}"
      end
    end
  end

  def test_an_exception_from_another_fiber_ends_the_wait
    FIBERS.each do |mode|
      serve(mode) do |server|
        sums = check(server, mode, "/raise_into")
        assert_in_delta 0.05, sums[:sleep], 0.4, mode
        assert_idle(server, mode)
      end
    end
  end

  # The row is another request's by the time that such a fiber goes on.
  def test_a_fiber_that_outlives_its_request_charges_no_other
    FIBERS.each do |mode|
      serve(mode) do |server|
        check(server, mode, "/outlive")
        server.begin("/lock")
        row = server.row_in(:lock)
        sleep 0.4
        assert_equal :lock, server.rows.used.find { |one| one[:id] == row[:id] }[:state], mode
        server.finish("/lock")
        sums = server.row_of("/lock")[:sums]
        assert_operator sums[:lock], :>, 0.35, "#{mode} #{sums}"
        assert_nil sums[:sleep], mode
        assert_idle(server, mode)
      end
    end
  end

  def test_a_wait_of_a_resumed_fiber_is_the_requests
    FIBERS.each do |mode|
      serve(mode) { |server| assert_operator check(server, mode, "/resumed")[:sleep], :>=, 0.045, mode }
    end
  end

  def test_a_thread_that_is_killed
    serve("thread") do |server|
      3.times { check(server, "thread", "/kill_thread") }
      assert_equal 200, status(server, "/")
      assert_idle(server, "thread")
    end
  end

  # Those that are abandoned at the end of the server: its slot has no row in use then.
  def test_requests_that_are_abandoned_at_the_end
    MODES.each do |mode|
      serve(mode, shutdown_timeout: 0.2) do |server|
        server.begin("/lock")
        assert Waits.eventually { server.rows.used.any? }, mode
        Process.kill(:TERM, server.pid)
        assert Waits.eventually { server.rows.used.empty? }, "#{mode}: #{server.rows.used}"
      end
    end
  end

  private

  # Sends it, and returns the sums of the row that it has left.
  def check(server, mode, path)
    server.get(path)
    row = server.row_of(path)
    assert row && !row[:used], "#{mode} #{path}: #{row}"
    assert_in_delta row[:duration], row[:total], [row[:duration] / 100, 1e-5].max, "#{mode} #{path}"
    row[:sums]
  end

  def status(server, path) = server.get(path)[/\AHTTP\S+ (\d+)/, 1].to_i

  def assert_idle(server, mode)
    assert Waits.eventually { server.rows.used.empty? && server.rows.used(:queued).empty? },
           "#{mode}: #{server.rows.used}"
  end
end
