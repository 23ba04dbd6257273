# frozen_string_literal: true

require_relative "cluster_case"
require_relative "front"
require_relative "programs"
require_relative "../soak/storms/storm"

# For tests of a real proxy in front of the server, set up as docs/examples has it. bin/soak nginx haproxy is the long
# form.
module FrontCase
  include ClusterCase
  include Programs

  APP = <<~RUBY.freeze
    map("/address") { run ->(env) { [200, { "content-type" => "text/plain" }, [env["REMOTE_ADDR"]]] } }
    #{Storms::Cluster::APP}
  RUBY
  WORKERS = "workers 2\npreload_app! false\n"
  # Where a request comes from, for the server behind a proxy.
  CLIENT = "127.0.0.7"

  def setup
    super
    @fronts = []
  end

  def teardown
    @fronts.each(&:stop)
  ensure
    super
  end

  # Runs the app on a TCP listener of these terms only.
  def serve(config, terms: "")
    File.write(File.join(@directory, "settings.rb"), config)
    File.write(File.join(@directory, "config.ru"), APP)
    start_abaca("-b", "tcp://127.0.0.1:0#{terms}", "-C", "settings.rb", "config.ru")
  end

  # Starts a proxy that has found its servers, in a folder of its own.
  def front(kind, *servers)
    need_program(kind::PROGRAM)
    folder = File.join(@directory, "front")
    Dir.mkdir(folder)
    kind.new(folder, *servers).tap do |front|
      @fronts << front
      assert eventually { answered?(front) }, front.text
    end
  end

  def answered?(front)
    connect(front.port).call(CLOSE).status == 200
  rescue SystemCallError, EOFError
    false
  end

  # Runs the block under load of clients that keep their connections and others that do not; nobody sees an error.
  def load_without_error(front)
    clients = Storms::Clients.new(front.port, 12, asking: Storms::Clients::MIXED)
    assert eventually { clients.answers > 200 }
    yield
    before = clients.answers
    assert eventually { clients.answers > before + 200 }
    assert_empty clients.stop.notes.map(&:to_a), front.text
  ensure
    clients&.stop
  end

  # Replaces all workers.
  def restart(command, phase)
    command.signal(:USR1)
    assert eventually { running(command).map(&:phase) == [phase, phase] }, command.text
  end

  # Ends the command with TERM; returns its exit status.
  def finish(command)
    command.signal(:TERM)
    command.wait.exitstatus
  end

  # The address of a client, as the app of `front` sees it.
  def remote_address(front)
    Socket.tcp("127.0.0.1", front.port, CLIENT) do |socket|
      socket.write("GET /address HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n")
      socket.read[/\S+\z/]
    end
  end
end
