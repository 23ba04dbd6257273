# frozen_string_literal: true

require "test_helper"
require "support/memory_model"

# Each protocol between threads without a lock, step by step as the C files have it, on a machine that reorders what it
# may (arm64): no end that must not be can be reached; and with any one order less, one can. docs/architecture.md has
# the table. What the steps are in C is tested by threads under ThreadSanitizer (rake races).
class OrdersTest < Minitest::Test
  def load(...) = MemoryModel.load(...)
  def store(...) = MemoryModel.store(...)
  def swap(...) = MemoryModel.swap(...)
  def fence(...) = MemoryModel.fence(...)

  # The block says whether an end is a mistake. `spare`: orders without which this protocol alone would do.
  def assert_safe(threads, memory = {}, spare: [], &mistake)
    ends = MemoryModel.new(threads, memory).ends
    assert_operator ends.size, :>, 1, "the threads do not meet"
    assert_empty ends.select(&mistake)
    unneeded = MemoryModel.weaker(threads, memory).reject { |_, weaker| weaker.ends.any?(&mistake) }.map(&:first)
    assert_equal spare, unneeded
  end

  # What the model itself knows: without an order, a number may be seen before what it counts.
  def test_the_model_reorders
    ends = MemoryModel.new([[store(:data, 1), store(:flag, 1)], [load(:f, :flag), load(:d, :data)]]).ends
    assert_includes ends.map { |one| one.values_at(:f, :d) }, [1, 0]
    both = MemoryModel.new([[store(:x, 1), load(:a, :y)], [store(:y, 1), load(:b, :x)]]).ends
    assert_includes both.map { |one| one.values_at(:a, :b) }, [0, 0]
  end

  def torn?(one, first, last, *values)
    one[first] == one[last] && one[first].even? && one.values_at(*values).uniq.size > 1
  end

  # page/words.h: ab_seq_open, ab_seq_close; ab_seq_begin, ab_seq_holds.
  def test_a_record_is_whole_or_not_there
    writer = [store(:seq, 1), fence(:release), store(:one, 7), store(:other, 7), store(:seq, 2, :release)]
    reader = [load(:begun, :seq, :acquire), load(:a, :one), load(:b, :other), fence(:acquire), load(:held, :seq)]
    assert_safe([writer, reader]) { |one| torn?(one, :begun, :held, :a, :b) }
  end

  # The same for a writer that ends one record and begins the next.
  def test_nor_is_it_between_two_writes
    writer = [store(:one, 1), store(:other, 1), store(:seq, 2, :release),
              store(:seq, 3), fence(:release), store(:one, 2), store(:other, 2)]
    reader = [load(:begun, :seq, :acquire), load(:a, :one), load(:b, :other), fence(:acquire), load(:held, :seq)]
    assert_safe([writer, reader]) { |one| one[:begun] == 2 && torn?(one, :begun, :held, :a, :b) }
  end

  # page/routes.c, series.c and kept.c: what is counted is there before its number; page.c: the head before `magic`;
  # engine/turns.c: a date before the pointer to it.
  def test_a_number_comes_after_what_it_counts
    writer = [store(:name, 7), store(:used, 1, :release)]
    reader = [load(:seen, :used, :acquire), load(:text, :name)]
    assert_safe([writer, reader]) { |one| one[:seen] == 1 && one[:text] != 7 }
  end

  # page/ended.h: ab_page_count_ended; tally.c: copy_requests, where `seq` does not help. What is not a route's is the
  # difference.
  def test_the_whole_has_no_request_that_its_route_lacks
    writer = [store(:route, 1), fence(:release), store(:whole, 1)]
    reader = [load(:all, :whole), fence(:acquire), load(:part, :route)]
    assert_safe([writer, reader]) { |one| one[:all] > one[:part] }
  end

  # page/slot.c: ab_page_claim, read_once. The last claim was 1.
  def test_what_stands_between_settled_and_holder_is_of_one_claim
    claim = [load(:before, :holder, :acquire), store(:holder, 2, :release), fence(:release), store(:phase, 2),
             store(:figures, 2), store(:settled, 2, :release)]
    look = [load(:begun, :settled, :acquire), load(:phase_seen, :phase), load(:figures_seen, :figures),
            fence(:acquire), load(:held, :holder)]
    old = { holder: 1, settled: 1, phase: 1, figures: 1 }
    # These are for what the last process has written.
    spare = ["acquire of load holder in thread 0", "release of store holder in thread 0"]
    assert_safe([claim, look], old, spare: spare) do |one|
      one[:begun] == one[:held] && one.values_at(:phase_seen, :figures_seen) != [one[:held]] * 2
    end
  end

  # page/events.c: `number` is odd, then even by compare-and-swap, which is a store here: nobody else writes.
  def test_an_event_is_whole_or_not_there
    writer = [store(:number, 3), fence(:release), store(:when, 4), store(:text, 4), store(:number, 4, :release)]
    reader = [load(:begun, :number, :acquire), load(:a, :when), load(:b, :text), fence(:acquire), load(:held, :number)]
    assert_safe([writer, reader], { number: 2, when: 2, text: 2 }) do |one|
      one[:begun] == one[:held] && one[:begun].even? && one.values_at(:a, :b) != [one[:begun]] * 2
    end
  end

  # lead/pulse.h, ab_pulse_leave; pulse.c, ab_bell_sleep: whoever leaves rings, or is seen to have left.
  def test_no_watcher_sleeps_while_somebody_leaves
    leaves = [store(:beat, 1, :seq_cst), load(:asleep_seen, :asleep, :seq_cst)]
    sleeps = [store(:asleep, 1, :seq_cst), load(:beat_seen, :beat, :seq_cst)]
    assert_safe([leaves, sleeps]) { |one| one[:asleep_seen].zero? && one[:beat_seen].zero? }
  end

  # lead/lead.h, ab_lead_held; lead.c, seize. The thread is away, and comes back: only one of both may turn the engine.
  def test_the_lead_has_one_holder
    comes = [store(:beat, 2, :seq_cst), load(:leads, :holder, :seq_cst)]
    seizes = [load(:from, :holder, :seq_cst), store(:holder, 0, :seq_cst), load(:beat_seen, :beat, :seq_cst)]
    assert_safe([comes, seizes], { holder: 1, beat: 1 }, spare: ["seq_cst of load holder in thread 1"]) do |one|
      one[:leads] == 1 && one[:beat_seen].odd?
    end
  end

  # ... and whoever takes over finds the engine's memory as the one before has left it.
  def test_the_engine_is_seen_as_it_was_left
    leaves = [store(:engine, 7), store(:beat, 1, :seq_cst)]
    seizes = [load(:beat_seen, :beat, :seq_cst), load(:engine_seen, :engine)]
    assert_safe([leaves, seizes]) { |one| one[:beat_seen] == 1 && one[:engine_seen] != 7 }
  end

  # lead/lead.h, ab_participant_read: a thread that reads a request keeps the lead, and says so before it leaves.
  def test_a_thread_that_reads_is_known_to
    reads = [store(:reading, 1), store(:beat, 1, :seq_cst)]
    seizes = [load(:beat_seen, :beat, :seq_cst), load(:reads, :reading, :seq_cst)]
    # Of the second load only the place is needed.
    assert_safe([reads, seizes], spare: ["seq_cst of load reading in thread 1"]) do |one|
      one[:beat_seen] == 1 && one[:reads].zero?
    end
  end

  # lead/standby.c: ab_standby_soon, begin_to_wait twice. It waits, and there is nothing yet to wait for.
  def test_output_is_not_put_off_for_ever
    soon = [store(:put_off, 1, :seq_cst), load(:waits_seen, :waits, :seq_cst)]
    ends = [swap(:first, :put_off, 0, :seq_cst), store(:waits, ->(seen) { seen[:first] }, :seq_cst, uses: [:first]),
            swap(:again, :put_off, 0, :seq_cst)]
    # What stands between two swaps needs no more.
    spare = ["seq_cst of swap put_off in thread 1", "seq_cst of store waits in thread 1"]
    assert_safe([soon, ends], { waits: 1 }, spare: spare) do |one|
      one[:waits_seen] == 1 && one[:first].zero? && one[:again].zero?
    end
  end

  # io/poller.c, ab_poller_wakeup, ab__poller_hush; poller_epoll.c: a waker that finds the flag set leaves it to the
  # other one, and what it did before is seen after the flag was cleared.
  def test_a_wake_up_brings_what_was_done_before
    wakes = [store(:work, 7), swap(:asked, :wake_asked, 1, :acq_rel)]
    turns = [swap(:woken, :wake_asked, 0, :acq_rel), load(:work_seen, :work)]
    assert_safe([wakes, turns], { wake_asked: 1 }) do |one|
      one[:asked] == 1 && one[:wake_asked].zero? && one[:work_seen] != 7
    end
  end

  # rb/run/rb_stalls.c, report and tell; rb_stall_samples.c: when was asked is there before what was asked.
  def test_a_question_comes_after_its_time
    asks = [store(:asked_at, 7), store(:asked, 1, :seq_cst)]
    tells = [load(:question, :asked, :seq_cst), load(:time, :asked_at)]
    assert_safe([asks, tells]) { |one| one[:question] == 1 && one[:time] != 7 }
  end

  # tls/facts.c, tls/context.c, io/poller.c: whoever lets go last frees, and nobody uses it any more. The use is a load
  # here, which would find what freeing leaves there.
  def test_what_is_freed_is_not_used
    uses = [load(:used, :memory), swap(:left, :holds, ->(seen) { seen[:left] - 1 }, :acq_rel)]
    frees = [swap(:left_then, :holds, ->(seen) { seen[:left_then] - 1 }, :acq_rel), store(:memory, 9)]
    assert_safe([uses, frees], { holds: 2 }) { |one| one[:left_then] == 1 && one[:used] == 9 }
  end
end
