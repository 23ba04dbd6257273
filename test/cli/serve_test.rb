# frozen_string_literal: true

require "test_helper"
require "socket"
require_relative "command"

# The command from its start to its end: what it prints, where it listens, how signals end it.
class CommandServeTest < Minitest::Test
  include Command

  APP = <<~'RUBY'
    run(lambda do |env|
      case env["PATH_INFO"]
      when "/slow" then $stderr.write("begun\n") && (sleep(0.01) until File.exist?(env["QUERY_STRING"]))
      when "/boom" then raise "the app's own reason"
      when "/env" then return [200, { "content-type" => "text/plain" }, [[ENV["RACK_ENV"], env["SCRIPT_NAME"], env["rack.url_scheme"], Dir.pwd].join("|")]]
      end
      [200, { "content-type" => "text/plain" }, ["hello\n"]]
    end)
  RUBY

  def setup
    super
    file("config.ru", APP)
  end

  def test_serves_and_ends_with_0_on_term
    server = start("-p", "0")

    assert_equal "hello\n", server.get("/").body
    server.signal(:TERM)
    assert_equal 0, server.wait.exitstatus
    assert_match(/^- Gracefully stopping, waiting for requests to finish$/, server.output)
    assert_match(/^- Goodbye!$/, server.output)
  end

  # As a service that was given no locale: there the name is no text.
  def test_a_name_that_is_no_text_in_the_locale
    file("m\u00fcller/config.ru", APP)
    server = start("-p", "0", "m\u00fcller/config.ru", env: { "LC_ALL" => "C" })

    assert_equal "hello\n", server.get("/").body
  end

  def test_ends_with_0_on_int
    server = start("-p", "0")
    server.port
    server.signal(:INT)

    assert_equal 0, server.wait.exitstatus
  end

  def test_banner
    server = start("-b", "tcp://127.0.0.1:0")
    server.port

    assert_match(/^Abaca starting in single mode\.\.\.$/, server.output)
    assert_match(/^\* Abaca version: \d/, server.output)
    assert_match(/^\* Ruby version: #{Regexp.escape(RUBY_DESCRIPTION)}$/, server.output)
    assert_match(/^\*  Environment: development$/, server.output)
    assert_match(/^\*          PID: #{server.pid}$/, server.output)
    assert_match(%r{^\* Listening on http://127\.0\.0\.1:\d+$}, server.output)
    assert_match(/^Use Ctrl-C to stop$/, server.output)
  end

  def test_silent
    server = start("-s", "-b", "unix://#{@dir}/s")
    open_socket("#{@dir}/s") do |socket|
      socket.write("GET / HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n")
      assert_match(%r{\AHTTP/1\.1 200 }, socket.read)
    end
    server.signal(:TERM)

    assert_equal 0, server.wait.exitstatus
    assert_empty own_lines(server.output)
  end

  def test_requests_in_flight_are_answered_before_the_end
    server = start("-p", "0")
    request = slow(server)
    server.signal(:TERM)
    server.wait_for(/Gracefully stopping/)
    let_go

    assert_equal "200", request.value
    assert_equal 0, server.wait.exitstatus
  end

  def test_stops_accepting_at_once
    server = start("-p", "0")
    request = slow(server)
    server.signal(:TERM)
    # While the request goes on, however long that is.
    assert eventually(within: SECONDS) { refused?(server.port) }
    let_go

    assert_equal "200", request.value
  end

  def test_second_signal_stops_at_once
    server = start("-p", "0", "--shutdown-timeout", "forever")
    request = slow(server)
    server.signal(:TERM)
    server.wait_for(/Gracefully stopping/)
    server.signal(:TERM)

    assert_equal 0, server.wait.exitstatus
    assert_includes %w[503 gone], request.value
    assert_match(/^\* Stopping immediately!$/, server.output)
  end

  def test_drain_that_runs_out
    file("config/abaca.rb", "port 0\nforce_shutdown_after 0.3\n")
    server = start
    request = slow(server)
    server.signal(:TERM)

    # Well before the half of a minute that it is by default.
    assert_equal 0, server.wait.exitstatus
    assert_includes %w[503 gone], request.value
  end

  def test_hup_stops_and_usr1_does_not_end_it
    server = start("-p", "0")
    server.port
    server.signal(:USR1)
    server.wait_for(/phased-restart called but not available, restarting normally/)
    assert_equal "200", server.get("/").code
    server.signal(:HUP)

    assert_equal 0, server.wait.exitstatus
  end

  def test_access_log
    server = start("-p", "0", "-v")
    server.get("/a?b=c")

    line = server.wait_for(/^127\.0\.0\.1 - - \[(.*)\] "(.*)" (\d+) (\d+) (\d+\.\d{4})$/)
    assert_equal "GET /a?b=c HTTP/1.1", line[2]
    assert_equal %w[200 6], [line[3], line[4]]
    assert_match(%r{\A\d\d/\w{3}/\d{4}:\d\d:\d\d:\d\d [+-]\d{4}\z}, line[1])
  end

  def test_no_access_log_by_default_and_with_q
    file("config/puma.rb", "log_requests\nport 0\n")
    server = start("-q")
    server.get("/a")
    server.signal(:TERM)
    server.wait

    refute_match(%r{GET /a}, server.output)
  end

  def test_app_error_goes_to_the_log_and_not_to_the_client
    server = start("-p", "0", "-e", "production")
    response = server.get("/boom")

    assert_equal "500", response.code
    refute_match(/own reason/, response.body.to_s)
    server.wait_for(%r{error in the app: RuntimeError: the app's own reason \(GET /boom\)\n    .*config\.ru:4})
  end

  def test_unix_socket
    path = "#{@dir}/with blank.sock"
    server = start("-b", "unix://#{path.sub(' ', '%20')}?umask=0077")
    server.wait_for(/Listening on unix:/)
    server.wait_for(/Use Ctrl-C/)
    assert_equal 0o140700, File.stat(path).mode
    server.signal(:TERM)
    server.wait

    refute_path_exists path
  end

  def test_an_inherited_socket
    socket = TCPServer.new("127.0.0.1", 0)
    port = socket.addr[1]
    2.times do
      server = start("-b", "fd://7", inherits: { 7 => socket })
      assert_equal port, server.port
      assert_equal "200", server.get("/").code
      server.signal(:TERM)
      assert_equal 0, server.wait.exitstatus
    end
  ensure
    socket&.close
  end

  def test_a_socket_that_was_not_inherited
    assert_match(%r{cannot listen on fd://77: }, assert_fails("-b", "fd://77"))
  end

  def test_localhost_is_every_loopback_address
    server = start("-b", "tcp://localhost:0")
    server.wait_for(/Use Ctrl-C/)
    ports = server.output.scan(/Listening on (\S+):(\d+)$/).to_h

    assert ports.key?("http://127.0.0.1")
    assert_equal 1, ports.values.uniq.size
    assert ports.key?("http://[::1]") if Socket.ip_address_list.any?(&:ipv6_loopback?)
  end

  def test_several_places
    server = start("-b", "tcp://127.0.0.1:0", "-b", "unix://#{@dir}/s")
    server.wait_for(/Use Ctrl-C/)

    assert_equal 2, server.output.scan("* Listening on").size
  end

  def test_pidfile_is_there_while_it_serves
    server = start("-p", "0", "--pidfile", "pid")
    server.port
    assert_equal server.pid, Integer(File.read("#{@dir}/pid"))
    server.signal(:TERM)
    server.wait

    refute_path_exists "#{@dir}/pid"
  end

  def test_behind_proxies
    file("config/puma.rb", "log_requests\ntrusted_proxies :loopback\nbind \"tcp://127.0.0.1:0?proxy_protocol=v1\"\n")
    server = start
    { "192.0.2.1" => "192.0.2.1", "127.0.0.9" => "198.51.100.1" }.each do |source, client|
      TCPSocket.open("127.0.0.1", server.port) do |socket|
        socket.write("PROXY TCP4 #{source} 127.0.0.1 1 2\r\nGET / HTTP/1.0\r\nX-Forwarded-For: 198.51.100.1\r\n\r\n")
        assert_match(%r{\AHTTP/1\.1 200 }, socket.read)
      end
      assert server.wait_for(/^#{Regexp.escape(client)} - - \[/)
    end
  end

  def test_environment_reaches_the_app
    assert_match(/\Aproduction\|/, start("-b", "tcp://127.0.0.1:0", "-e", "production").get("/env").body)
    assert_match(/\Astaging\|/, start("-b", "tcp://127.0.0.1:0", env: { "RACK_ENV" => "staging" }).get("/env").body)
  end

  def test_script_name_scheme_and_directory
    file("app/config.ru", APP)
    file("config/abaca.rb", "port 0\nrack_url_scheme \"https\"\ndirectory \"app\"\n")
    body = start(env: { "SCRIPT_NAME" => "/below" }).tap { |server| @server = server }
    body.wait_for(/Use Ctrl-C/)
    port = Integer(body.output[/:(\d+)$/, 1])

    assert_equal "development|/below|https|#{@dir}/app", Net::HTTP.get(URI("http://127.0.0.1:#{port}/env"))
  end

  def test_files_of_the_output_are_below_the_directory
    FileUtils.mkdir_p("#{@dir}/app/log")
    FileUtils.mv("#{@dir}/config.ru", "#{@dir}/app")
    file("config/puma.rb", "stdout_redirect \"log/out\"\ndirectory \"app\"\nbind \"unix:///#{@dir}/s\"\n")
    server = start
    log = "#{@dir}/app/log/out"
    assert eventually(within: SECONDS) { File.exist?(log) && File.read(log).include?("Use Ctrl-C") }
    server.signal(:TERM)

    assert_equal 0, server.wait.exitstatus
  end

  def test_a_folder_for_the_output_that_is_not_there
    file("config/puma.rb", "port 0\nstdout_redirect \"/no/such/folder/out\", nil, true\n")
    server = start
    assert_equal 1, server.wait.exitstatus
    assert_equal "abaca: config/puma.rb:2: stdout_redirect: cannot write /no/such/folder/out: " \
                 "No such file or directory\n", server.output
  end

  def test_redirected_output_is_opened_anew_on_hup
    log = "#{@dir}/out.log"
    server = start("-b", "unix://#{@dir}/s", "--redirect-stdout", log, "--redirect-stderr", log, "--redirect-append")
    assert eventually(within: SECONDS) { File.exist?(log) && File.read(log).include?("Use Ctrl-C") }
    File.rename(log, "#{log}.1")
    server.signal(:HUP)
    assert eventually(within: SECONDS) { File.exist?(log) }
    server.signal(:PWR)
    assert eventually(within: SECONDS) { File.read(log).include?("=== 0 requests") }
    server.signal(:TERM)

    assert_equal 0, server.wait.exitstatus
    assert_match(/Goodbye/, File.read(log))
    refute_match(/Goodbye|=== 0 requests/, server.output)
  end

  # Tools that start a server wait for its lines where they have started it.
  def test_boot_lines_are_in_the_original_output_too
    server = start("-b", "unix://#{@dir}/s", "--redirect-stdout", "#{@dir}/out", "--redirect-stderr", "#{@dir}/err")
    server.wait_for(/Use Ctrl-C/)
    assert eventually(within: SECONDS) { File.read("#{@dir}/out").include?("Use Ctrl-C") }
    assert_equal own_lines(File.read("#{@dir}/out")), own_lines(server.output)
    server.signal(:TERM)
    assert_equal 0, server.wait.exitstatus

    file("config.ru", "raise 'broken'")
    server = start("-b", "unix://#{@dir}/s", "--redirect-stderr", "#{@dir}/err")
    assert_equal 1, server.wait.exitstatus
    [server.output, File.read("#{@dir}/err")].each { |text| assert_match(/^abaca: cannot load .*: broken/, text) }
  end

  def test_settings_without_effect_warn_once_with_their_line
    file("config/puma.rb", "threads 1, 5\nio_selector_backend :auto\nport 0\n")
    server = start("-t", "2:3")
    server.port
    # Standard error has a writer of its own, which may be later than the other.
    server.signal(:TERM)
    server.wait

    assert_match(/^\*   Max fibers: 1000$/, server.output)
    assert_match(%r{^abaca: warning: config/puma.rb:2: `io_selector_backend' has no effect}, server.output)
  end

  def test_hooks_and_app_of_the_configuration_file
    file("config/abaca.rb", <<~RUBY)
      port 0
      app { |_env| [200, {}, ["from the file"]] }
      after_booted { $stdout.puts "booted" }
      after_stopped { $stdout.puts "stopped" }
    RUBY
    server = start
    assert_equal "from the file", server.get("/").body
    server.signal(:TERM)
    server.wait

    assert_operator server.output.index("booted"), :<, server.output.index("stopped")
  end

  private

  # Sends a request that waits until #let_go, and returns when the app has it: a thread with its status.
  def slow(server)
    server.port # before two read what it says
    request = Thread.new do
      server.get("/slow?#{@dir}/go").code
    rescue EOFError, SystemCallError
      "gone"
    end
    server.wait_for(/^begun\n/)
    request
  end

  def let_go = file("go", "")

  # A socket has a file before it can be connected to.
  def open_socket(path)
    socket = nil
    assert(eventually(within: SECONDS) do
      socket = UNIXSocket.new(path)
    rescue Errno::ENOENT, Errno::ECONNREFUSED
      nil
    end)
    yield socket
  ensure
    socket&.close
  end

  def refused?(port)
    TCPSocket.new("127.0.0.1", port).close
  rescue Errno::ECONNREFUSED
    true
  end
end
