# frozen_string_literal: true

require "test_helper"
require "abaca"
require "support/certificates"
require "support/process_case"
require "support/tls_client"
require "support/waits"

# What goes wrong in a process that speaks TLS: no descriptors while handshakes run, signals amid them, apps that raise
# in each phase of a request, and children that an app forks.
class TLSFaultsTest < Minitest::Test
  include ProcessCase
  include Waits

  APP = <<~RUBY
    text = { "content-type" => "text/plain" }
    broken = Struct.new(:fails) do
      def each
        yield "begun"
        raise "in each" if fails == :each
      end

      def close = (raise "in close" if fails == :close)
    end
    run(lambda do |env|
      case env["PATH_INFO"]
      when "/early" then raise "early"
      when "/read" then env["rack.input"].read(1).then { raise "in the body" }
      when "/each" then [200, text, broken.new(:each)]
      when "/close" then [200, text, broken.new(:close)]
      when "/after"
        env["rack.response_finished"] << ->(*) { raise "after the response" }
        [200, text, ["fine"]]
      when "/stream" then [200, text, ->(stream) { stream.write("begun") && raise("in the stream") }]
      when "/hijack"
        io = env["rack.hijack"].call
        begin
          io.write("begun")
          raise "has taken over"
        ensure
          io.close
        end
      when "/exit" then [200, text, [Process.wait2(fork { exit(7) }).last.exitstatus.to_s]]
      when "/raise"
        Process.wait(fork { raise "in a child" })
        [200, text, ["parent"]]
      else [200, text, ["fine"]]
      end
    end)
  RUBY
  PLACE = "bind 'ssl://127.0.0.1:0?cert=a.pem&key=a.key'\n"
  # The beginning of a ClientHello.
  HELLO = "\x16\x03\x01\x01\x00\x01\x00\x00\xfc\x03\x03".b.freeze

  def setup
    skip "this build has no TLS" unless Abaca::TLS_LIBRARY
    super
    @made = Certificates.new(@directory)
    @made.make("a", names: ["a.test"])
  end

  def run_tls(config = "", **options)
    File.write(File.join(@directory, "settings.rb"), PLACE + config)
    File.write(File.join(@directory, "config.ru"), APP)
    start_abaca("-C", "settings.rb", "config.ru", **options).tap { |command| command.wait_for(/Use Ctrl-C/) }
  end

  def secure(command) = TLSClient.new(command.port, ca: @made.authority.cert).tap { |client| @clients << client }

  # Clients that have begun with a handshake.
  def beginners(command, count) = Array.new(count) { connect(command.port).write(HELLO) }

  def get(path) = "GET #{path} HTTP/1.1\r\nHost: a.test\r\n\r\n"

  def fine?(command) = secure(command).call(get("/")).body == "fine"

  # --- apps that raise ---

  # path => what comes of it: a status, or the beginning of a response that breaks off.
  RAISED = {
    "/early" => 500, "/each" => :broken, "/stream" => :broken, "/close" => 200, "/after" => 200, "/hijack" => "begun"
  }.freeze

  def test_an_app_that_raises
    command = run_tls
    bystander = secure(command)
    RAISED.each do |path, expected|
      client = secure(command)
      case expected
      when Integer
        assert_equal expected, client.call(get(path)).status, path
        assert_equal "fine", client.call(get("/")).body, path
      when String then assert_equal expected, client.write(get(path)).drain, path
      else assert_breaks_off(client.write(get(path)), path)
      end
      assert_equal "fine", bystander.call(get("/")).body, path
    end
    ["early", "in each", "in close", "in the stream", "has taken over", "after the response"].each do |words|
      command.wait_for(/RuntimeError: #{words}/)
    end
  end

  def assert_breaks_off(client, path)
    text = client.drain
    assert_includes text, "begun", path
    refute text.end_with?("0\r\n\r\n"), path
  rescue OpenSSL::SSL::SSLError => e # as it does where close_notify is missing
    assert_match(/unexpected eof/, e.message, path)
  end

  # The app is called before the body is there.
  def test_an_app_that_raises_amid_a_body
    command = run_tls("max_body_memory_total 0\n")
    client = secure(command)
    client.write("POST /read HTTP/1.1\r\nHost: a.test\r\nContent-Length: 100000\r\n\r\n#{"x" * 1000}")
    assert_equal 500, client.read.status
    assert fine?(command)
  end

  # --- descriptors ---

  # Most of the crowd has no descriptor; those that have one do not say more.
  def test_more_handshakes_than_descriptors
    command = run_tls("tls_handshake_timeout 60\n", rlimit_nofile: 64)
    assert fine?(command)
    crowd = beginners(command, 150)
    before = command.processor_time
    nothing_for(2)
    assert_operator command.processor_time - before, :<, 0.4, "spins for want of descriptors"
    refute command.ended?, command.text
    crowd.each(&:close)
    assert(eventually { fine?(command) })
    assert_operator command.descriptors, :<, 64
  end

  # --- signals ---

  # A handshake is no request that a stop waits for.
  def test_a_signal_amid_handshakes
    %i[INT TERM].each do |signal|
      command = run_tls("tls_handshake_timeout 60\n")
      idle = secure(command)
      idle.call(get("/"))
      crowd = beginners(command, 20)
      assert fine?(command) # they have come, too
      command.signal(signal)
      assert_equal 0, command.wait.exitstatus, command.text
      crowd.each { |client| assert_empty client.drain, signal }
      assert_predicate idle, :closed?
    end
  end

  # --- forks ---

  # A child has the same keys and counters: a word of its own on any connection would end it.
  def test_children_say_nothing
    command = run_tls
    bystander = secure(command)
    { "/exit" => "7", "/raise" => "parent" }.each do |path, expected|
      client = secure(command)
      2.times { assert_equal expected, client.call(get(path)).body, path }
      [client, bystander].each { |one| assert_equal "fine", one.call(get("/")).body, path }
    end
    command.signal(:TERM)
    assert_equal 0, command.wait.exitstatus
  end
end
