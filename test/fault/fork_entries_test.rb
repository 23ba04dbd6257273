# frozen_string_literal: true

# also: sanitized rubies

require "test_helper"
require "json"
require "support/process_case"

# A child that was forked in a request calls everything that it finds there: each method ends at once, and nothing of
# the parent's is used. The methods are those that the classes have, so that a new one is tried, too.
class FaultForkEntriesTest < Minitest::Test
  include ProcessCase

  # What a child may call, because it changes and tells nothing of its parent's; everything else raises.
  QUIET = {
    "Abaca::Exchange" => %w[close closed? gone? closing?],
    "Abaca::Stream" => %w[close closed? closing? close_read close_write sync sync= tty? isatty binmode set_encoding
                          external_encoding fsync],
    "Abaca::Input" => %w[close closed? binmode set_encoding external_encoding],
    "Abaca::Engine" => %w[stop halt hand_over beat tell_stalls close requests backtraces pool_load pool_wait
                          end_out_of_band],
    "Abaca::Server" => %w[stop halt hand_over close requests sources dump native? check_hybrid config log each_second
                          reload_certificates] # which has no certificates here
  }.freeze

  APP = <<~'RUBY'
    require "json"

    # What the methods are called with; those that are not here with as many nils as they need.
    ARGUMENTS = {
      "write" => ["from the child"], "<<" => ["from the child"], "print" => ["from the child"], "puts" => ["from the child"],
      "printf" => ["from the child"], "putc" => ["c"], "syswrite" => ["from the child"], "write_nonblock" => ["from the child"],
      "read_nonblock" => [1], "readpartial" => [1], "sysread" => [1], "inform" => [103, { "link" => "</child>" }],
      "request_timeout=" => [1], "add_time" => [1], "add_tcp_listener" => ["127.0.0.1", 0],
      "add_unix_listener" => ["/nowhere/socket"], "add_listener_fd" => [0], "block" => [:child, 0.001], "kernel_sleep" => [0.001], "address_resolve" => ["127.0.0.1"],
      "timeout_after" => [1], "fiber_interrupt" => [Fiber.current, RuntimeError.new], "unblock" => [:child, Fiber.current],
      "io_close" => [-1], "process_wait" => [0, Process::WNOHANG], "run_spare" => [nil, nil], "wait" => [0], "raise" => [],
      "trim" => [0], "post" => [-> {}], "pool_load" => [1, 1, 0], "pool_wait" => [1],
      "max_queue=" => [1], "backtraces" => [[1]]
    }.freeze

    # With descriptors of its own.
    def arguments(name, method)
      case name
      when "io_wait" then [IO.pipe.last, IO::WRITABLE, 0.001]
      when "io_select" then [nil, [IO.pipe.last], nil, 0.001]
      when "io_read", "io_pread" then [File.open("/dev/null"), IO::Buffer.new(8), 0, 0, 0].first(name == "io_read" ? 4 : 5)
      when "io_write", "io_pwrite" then [File.open("/dev/null", "w"), IO::Buffer.new(8), 0, 0, 0].first(name == "io_write" ? 4 : 5)
      else ARGUMENTS.fetch(name) { [nil] * (method.arity.negative? ? -method.arity - 1 : method.arity) }
      end
    end

    def entries(object)
      owners = object.class.ancestors - Object.ancestors
      names = owners.flat_map { |owner| owner.public_instance_methods(false) }.uniq.sort
      # What ends the child's copy comes last.
      names.partition { |name| !name.match?(/close|stop|halt|detach/) }.flatten
    end

    # Says what is called before it is, since it may not come back.
    def call_all(objects, out)
      objects.each do |object|
        entries(object).each do |name|
          out.syswrite("#{object.class}##{name} ")
          object.public_send(name, *arguments(name.to_s, object.method(name))) { nil }
          out.syswrite("returned\n")
        rescue Exception => e
          out.syswrite("#{e.class}\n")
        end
      end
    end

    def in_child(objects)
      reader, writer = IO.pipe
      pid = fork do
        call_all(objects, writer)
        exit!(0)
      end
      writer.close
      reader.each_line { |line| $stdout.write("entry: ", line) && $stdout.flush }
      reader.close
      Process.wait(pid)
    end

    SERVERS = ObjectSpace.each_object(Abaca::Server)

    run lambda { |env|
      type = { "content-type" => "text/plain" }
      case env["PATH_INFO"]
      when "/request"
        in_child([env["abaca.client"], env["rack.input"]])
        [200, type, [env["rack.input"].read]]
      when "/stream"
        [200, type, lambda do |stream|
          stream.write("before\n")
          in_child([stream])
          stream.write("after\n")
          stream.close
        end]
      when "/server"
        in_child([*SERVERS, *ObjectSpace.each_object(Abaca::Engine)])
        [200, type, ["served\n"]]
      when "/scheduler"
        ticket = nil
        pool = Abaca::FiberPool.new(max: 2)
        ticket = pool.run { sleep }
        in_child([pool, ticket, Abaca::Outbox.new, Fiber.scheduler])
        ticket.cancel
        [200, type, ["scheduled\n"]]
      else [200, type, ["other\n"]]
      end
    }
  RUBY

  GET = "GET %s HTTP/1.1\r\nHost: a.test\r\n\r\n"
  POST = "POST %s HTTP/1.1\r\nHost: a.test\r\nContent-Length: 4\r\n\r\n"

  def test_a_request_and_its_body
    body = refused(%w[Abaca::Exchange Abaca::Input]) { |client| client.call("#{format(POST, "/request")}body").body }
    assert_equal "body", body
  end

  def test_a_stream
    body = refused(%w[Abaca::Stream]) { |client| client.call("#{format(POST, "/stream")}body").body }
    assert_equal "before\nafter\n", body
  end

  def test_a_server
    body = refused(%w[Abaca::Server Abaca::Engine]) { |client| client.call(format(GET, "/server")).body }
    assert_equal "served\n", body
  end

  # Its hooks wait as plain Ruby does, and the rest raises: test/scheduler/life_test.rb. Here all of them end.
  def test_a_scheduler_and_a_pool
    body = refused([]) { |client| client.call(format(GET, "/scheduler")).body }
    assert_equal "scheduled\n", body
  end

  private

  # Plays the block's request; what the child called of these classes has raised unless it is quiet. Returns the body.
  def refused(classes)
    @command = run_abaca(APP)
    client = connect(@command.port)
    body = yield client
    # What a child wrote would come next.
    assert_equal "other\n", client.call(format(GET, "/")).body
    outcomes = @command.text.scan(/^entry: (\S+)#(\S+) (\S+)$/)
    refute_empty outcomes
    classes.each { |name| check(name, outcomes.select { |klass,| klass == name }) }
    body
  ensure
    warn @command.text unless body
  end

  def check(name, outcomes)
    refute_empty outcomes, name
    returned = outcomes.select { |_, _, outcome| outcome == "returned" }.map { |_, method,| method }
    assert_empty returned - QUIET.fetch(name), name
    odd = outcomes.reject { |_, _, outcome| %w[returned IOError RuntimeError Abaca::Error].include?(outcome) }
    assert_empty odd, name
  end
end
