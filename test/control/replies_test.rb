# frozen_string_literal: true

require "test_helper"
require "abaca"
require "abaca/control"
require "abaca/control/replies"
require "json"
require "socket"
require "stringio"

# The answering end of a pair of sockets, when there is no thread to be had.
class ControlRepliesTest < Minitest::Test
  def setup
    super
    @asker, ours = UNIXSocket.pair
    replies = Abaca::Control::Replies.new(ours, Abaca::Log.new(StringIO.new)) do |word, with|
      Abaca::Control::Answer.text(200, "#{word} #{with}")
    end
    @thread = Thread.new { replies.run }
  end

  def teardown
    @asker.close
    assert @thread.join(5)
    super
  end

  def ask(word)
    @asker.puts(JSON.generate({ id: 7, do: word, with: 1, until: Process.clock_gettime(Process::CLOCK_MONOTONIC) + 5 }))
    JSON.parse(@asker.gets)
  end

  # A server can be stopped though there is no thread to be had.
  def test_no_thread_for_a_question
    failing = ->(*) { raise ThreadError, "can't create Thread: Resource temporarily unavailable" }
    Thread.stub(:new, failing) do
      2.times { assert_equal [7, 200, "stop 1"], ask("stop").values_at("id", "status", "body") }
    end
  end
end
