# frozen_string_literal: true

require "test_helper"
require "support/server_case"

# What has begun goes before what has not: a crowd that comes at once is not started as a whole before the first of it
# goes on, and whoever is new gets a place between those that go on all the time.
class OverloadBegunFirstTest < Minitest::Test
  include ServerCase

  CROWD = 100
  BURN = 0.001 # seconds

  def setup
    super
    skip "which fiber is next is decided by Abaca's own loop only" unless MODE.empty?
  end

  def burn
    ends = Process.clock_gettime(Process::CLOCK_MONOTONIC) + BURN
    nil while Process.clock_gettime(Process::CLOCK_MONOTONIC) < ends
  end

  # Each request computes, waits for an instant, and computes once more; returns how many had begun and not gone on, at
  # the worst.
  def begun_at_worst
    begun = most = 0
    running = serve do
      most = [most, begun += 1].max
      burn
      sleep(0)
      begun -= 1
      burn
      [200, TYPE.dup, []]
    end
    clients = Array.new(CROWD) { connect(running) }
    clients.each { |client| client.write(GET) }
    assert_equal [200], clients.map { |client| client.read.status }.uniq
    most
  end

  def test_that_a_crowd_does_not_begin_as_a_whole_before_any_of_it_goes_on
    assert_operator begun_at_worst, :<, CROWD / 4
  end

  def test_that_what_goes_on_all_the_time_leaves_room_for_what_is_new
    done = false
    running = serve do |env|
      until done || env["PATH_INFO"] != "/busy"
        burn
        sleep(0)
      end
      [200, TYPE.dup, []]
    end
    busy = Array.new(20) { connect(running).tap { |client| client.write("GET /busy HTTP/1.1\r\nHost: a\r\n\r\n") } }
    assert(eventually { running.server.stats[:in_app] == busy.size })
    assert_equal 200, connect(running).call(GET).status
    done = true
    assert_equal [200], busy.map { |client| client.read.status }.uniq
  end
end
