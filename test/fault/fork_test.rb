# frozen_string_literal: true

# also: sanitized rubies

require "test_helper"
require "support/process_case"

# An app that forks in a request: the child must not touch its parent's connections.
class FaultForkTest < Minitest::Test
  include ProcessCase

  APP = <<~'RUBY'
    run lambda { |env|
      type = { "content-type" => "text/plain" }
      case env["PATH_INFO"]
      when "/returns" # the child comes back from the app as its parent does
        pid = fork
        Process.wait(pid) if pid
        [200, type, [pid ? "parent\n" : "child\n"]]
      when "/raises"
        pid = fork
        raise "in the child" unless pid

        Process.wait(pid)
        [200, type, ["parent\n"]]
      when "/exits"
        pid = fork
        exit 7 unless pid

        [200, type, ["#{Process.wait2(pid).last.exitstatus}\n"]]
      when "/block"
        reader, writer = IO.pipe
        pid = fork { writer.write("from the child") }
        writer.close
        Process.wait(pid)
        [200, type, [reader.read]]
      when "/takes"
        io = env["rack.hijack"].call
        pid = fork
        if pid
          Process.wait(pid)
          io.write("parent\n")
          io.close
        end
        [200, type, []]
      when "/streams"
        body = Enumerator.new do |out|
          out << "one\n"
          pid = fork
          out << "two\n"
          pid ? Process.wait(pid) : exit!(0)
          out << "three\n"
        end
        [200, type, body]
      else [200, type, ["other\n"]]
      end
    }
  RUBY

  GET = "GET %s HTTP/1.1\r\nHost: a.test\r\n\r\n"
  EXPECTED = {
    "/returns" => "parent\n", "/raises" => "parent\n", "/exits" => "7\n", "/block" => "from the child",
    "/streams" => "one\ntwo\nthree\n"
  }.freeze

  def test_a_child_never_answers
    port = run_abaca(APP).port
    bystander = connect(port)
    EXPECTED.each do |path, expected|
      client = connect(port)
      response = client.call(format(GET, path))
      assert_equal [200, expected], [response.status, response.body], path
      # What a child wrote would come next.
      assert_equal "other\n", client.call(format(GET, "/")).body, path
      assert_equal "other\n", bystander.call(format(GET, "/")).body, path
    end
  end

  # The end of the child's server does not end the stream, which is the parent's as well.
  def test_a_connection_that_the_app_has_taken_over
    ["mode :fiber", "mode :thread"].each do |config|
      client = connect(run_abaca(APP, config: config).port).write(format(GET, "/takes"))
      assert_equal "parent\n", client.drain, config
    end
  end

  def test_forks_on_a_thread
    { "mode :thread" => "a thread leads", "routes { thread '*' }" => "a loop leads" }.each do |config, name|
      command = run_abaca(APP, config: config)
      EXPECTED.each do |path, expected|
        assert_equal expected, connect(command.port).call(format(GET, path)).body, "#{path}, #{name}"
        assert_equal "other\n", connect(command.port).call(format(GET, "/")).body, "#{path}, #{name}"
      end
      command.signal(:TERM)
      assert_equal 0, command.wait.exitstatus
    end
  end

  def test_the_parent_ends_in_order_after_forks
    command = run_abaca(APP)
    EXPECTED.each_key { |path| connect(command.port).call(format(GET, path)) }
    command.signal(:TERM)
    assert_equal 0, command.wait.exitstatus
  end
end
