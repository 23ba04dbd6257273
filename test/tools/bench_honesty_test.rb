# frozen_string_literal: true

require "test_helper"
require "minitest/mock"
require "open3"
require "rbconfig"
require_relative "../../bench/support/bench"
require_relative "../../bench/servers/field"

# What benchmarks say of themselves: disturbed rounds, a client at its limit, ratios that are not known.
class BenchHonestyTest < Minitest::Test
  Sight = Bench::Witness::Sight

  # An account of these turns: [name, others' share of a processor, the client's].
  def account(*turns)
    Bench::Account.new.tap do |account|
      turns.each do |name, others, client|
        witness = Bench::Witness.new
        witness.define_singleton_method(:stop) { Sight.new(seconds: 1, steal: 0, others: others) }
        Bench::Witness.stub(:new, witness) do
          account.turn("x", name) { account.instance_variable_set(:@client, client) }
        end
      end
    end
  end

  def rows(account) = account.to_h[:rows].to_h { |row| [row[:name], row] }

  def test_disturbed_turns_are_marked
    account = account(["abaca", 0.05, nil], ["abaca", 0.2, nil], ["puma", 0.3, nil])
    assert_equal [[2], [1]], rows(account).values_at("abaca", "puma").map { |row| row[:disturbed] }
    assert_equal ["", " ~", ""], %w[abaca puma nobody].map { |name| account.mark("x", name) }
    assert_match(/\A3 turns, 2 disturbed \(others had up to 0.3 of a processor/, account.summary)
  end

  def test_a_client_at_its_limit_is_marked
    account = account(["limit", 0, 0.97], ["abaca", 0, 0.4])
    assert_equal [" *", ""], %w[limit abaca].map { |name| account.mark("x", name) }
    assert_match(/requests.s are its limit/, account.summary)
    assert_equal [true, nil], rows(account).values_at("limit", "abaca").map { |row| row[:client_at_its_limit] }
  end

  def test_a_client_is_watched_while_it_runs
    account = Bench::Account.new
    account.turn("x", "abaca") { account.client { Open3.capture2(RbConfig.ruby, "-e", "50_000.times { |i| i.to_s }") } }
    assert_operator rows(account)["abaca"][:client].first, :>, 0
  end

  def test_who_has_no_figure_is_named
    account = Bench::Account.new
    account.absent("x", "puma", "does not start")
    account.absent("x", "abaca fiber", "dies")
    assert_equal [false, true], rows(account).values.map { |row| row[:ours] }
    assert_equal ["does not start", "dies"], rows(account).values.map { |row| row[:reason] }
  end

  def test_a_ratio_is_told_if_the_rounds_agree
    assert_in_delta 2.0, Bench::Ratio.new([2, 2.2, 4], [1, 1, 2]).value
    assert_equal "2.00", Bench::Ratio.new([2, 2.2, 4], [1, 1, 2]).cell
    assert_nil Bench::Ratio.new([1.0, 1.2, 1.1], [1, 1, 1]).value, "within the spread"
    assert_nil Bench::Ratio.new([3], [1]).value, "one round"
    assert_nil Bench::Ratio.new([1.3, 1.5], [1, 1]).value, "two rounds that may be close by chance"
    assert_in_delta 1.4, Bench::Ratio.new([1.3, 1.4, 1.5], [1, 1, 1]).value
    assert_in_delta 1.4, Bench::Ratio.new([1.38, 1.42], [1, 1]).value
    assert_nil Bench::Ratio.new([3, nil], [1, 1]).value, "one round of both"
    assert_nil Bench::Ratio.new([], [1]).cell
  end

  def test_the_time_of_threads_and_children_that_have_ended_counts
    burn = "t = Process.clock_gettime(2); nil while Process.clock_gettime(2) - t < 0.2"
    code = "$stdout.sync = true; gets; Thread.new { #{burn} }.join; Process.wait(fork { #{burn} }); puts 1; gets"
    IO.popen([RbConfig.ruby, "-e", code], "r+") do |child|
      meter = Bench::CpuMeter.new(child.pid).start
      child.puts
      child.gets
      used = meter.stop
      child.puts
      assert_operator used.nanoseconds, :>, 350_000_000
    end
  end

  def test_every_second_round_goes_the_other_way
    field = Bench::Field.new(settings: [["abaca", {}, "a"], ["abaca", {}, "b"]], name: "x")
    order = []
    capture_io { field.rounds(3) { |entry| order << entry.label } }
    assert_equal %w[a b b a a b], order
  end
end
