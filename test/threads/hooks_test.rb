# frozen_string_literal: true

# also: rubies

require "test_helper"
require "support/server_case"

# What is called when a thread for requests begins and ends.
class ThreadHooksTest < Minitest::Test
  include ServerCase

  WAYS = { "mode" => { mode: :thread, routes: [] }, "route" => { mode: :fiber, routes: [[:thread, "*"]] } }.freeze
  TELL = ->(_env) { [200, TYPE.dup, [Thread.current[:begun].to_s]] }

  WAYS.each do |name, way|
    define_method("test_they_run_on_each_thread_#{name}") do
      seen = Queue.new
      begins = -> { seen << [:begins, Thread.current[:begun] = Thread.current.object_id] }
      running = serve(TELL, **way, threads: [1, 1], before_thread_start: [begins],
                                   before_thread_exit: [-> { seen << [:ends, Thread.current.object_id] }])
      answers = Array.new(2) { ask(running).body }
      finish(running)

      id = Integer(answers.first)
      assert_equal [id.to_s] * 2, answers
      assert_equal [[:begins, id], [:ends, id]], Array.new(seen.size) { seen.pop }
    end

    define_method("test_what_they_raise_is_logged_#{name}") do
      hooks = { before_thread_start: [-> { raise "no start" }], before_thread_exit: [-> { raise "no end" }] }
      running = serve(TELL, **way, threads: [1, 1], **hooks)
      assert_equal "", ask(running).body
      assert running.logged?(/hook before_thread_start at .* failed: no start \(RuntimeError\)/)
      finish(running)
      assert_match(/hook before_thread_exit at .* failed: no end/, running.output.string)
    end

    # The thread counts as one on its way, so that a request waits for it.
    define_method("test_a_request_waits_for_the_start_#{name}") do
      gate = Queue.new
      running = serve(TELL, **way, threads: [0, 1], before_thread_start: [-> { Thread.current[:begun] = gate.pop }])
      client = connect(running)
      client.write(request("GET", "/"))
      assert eventually { gate.num_waiting == 1 }
      gate << "late"
      assert_equal "late", client.read.body
    end
  end
end
