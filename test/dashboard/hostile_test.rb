# frozen_string_literal: true

require_relative "faces_case"
require "open3"

# Clients send what they like, over the wire: no face of the server is moved by it.
class DashboardHostileTest < Minitest::Test
  include FacesCase

  # The route is what a field says; each request stays until the test is over.
  APP = <<~RUBY
    run(lambda do |env|
      env["abaca.route"] = env["HTTP_X_ROUTE"] if env["HTTP_X_ROUTE"]
      sleep 0.02 until File.exist?("go") || env["HTTP_X_ENDS"]
      env["HTTP_X_ENDS"] == "raise" ? raise(env["PATH_INFO"]) : [200, { "content-type" => "text/plain" }, ["done"]]
    end)
  RUBY
  TARGETS = ["/<script>window.hit=1</script>", "/%3Cimg%20src=x%20onerror=window.hit=1%3E",
             "/\"'><svg/onload=window.hit=1>", "/%1B[2J%1B]0;owned%07", "/\e[31m\e]0;owned\a",
             "/\xe2\x80\xae\xe2\x81\xa6gnp\xc2\x9b2J", "/%E2%80%AEgnp", "/\xff\xfe\xc3", "/%00%0D%0Aabaca_up%201",
             "/{{script}}", "/${window.hit=1}", "/a\\b", "/#{'a' * 8192}", "/#{'%1B' * 2000}",
             "http://evil.test/<b>", "*", "/?<script>window.hit=1</script>=%1B[2J"].freeze
  ROUTES = ["</td><script>window.hit=1</script>", "\"} 1", "a\\\"b\\", "\e[2Jx", "\xe2\x80\xaetxt", "x" * 500,
            "_OTHER"].freeze

  def teardown
    File.write("#{@directory}/go", "")
    @clients&.each(&:close)
    super
  end

  # @return [TCPSocket] with a request of these bytes
  def send_bytes(bytes)
    TCPSocket.new("127.0.0.1", @server.port).tap do |socket|
      (@clients ||= []) << socket
      socket.write(bytes.b)
    rescue Errno::EPIPE, Errno::ECONNRESET
      nil # refused before all was there
    end
  end

  def head(target, *fields) = ["GET ".b + target.b + " HTTP/1.1", "Host: a", *fields.map(&:b), "", ""].join("\r\n")

  def test_what_clients_send
    stage(app: APP)
    TARGETS.each { |target| send_bytes(head(target)) }
    # Fields without an end, and one that is as long as it may be.
    send_bytes(head("/flood", *Array.new(5_000) { |i| "X-#{i}: <script>window.hit=1</script>" }))
    send_bytes(head("/flood", "X-Long: #{"\e[2J" * 100_000}"))
    ROUTES.each { |route| send_bytes(head("/route", "X-Route: #{route}", "X-Ends: yes")).readpartial(99) }
    send_bytes(head("/raise/%1B%5B2J%3Cscript%3E", "X-Ends: raise")).readpartial(99)
    found = nil
    assert(eventually { (found = json("/requests?most=100")[:requests]).size >= 8 })
    assert_operator found.map { |one| one[:path].to_s.size }.max, :<=, 128
    assert_browser
    assert_terminal
    assert_texts
  end

  # What it reads is text: nothing runs, nothing is drawn, and the page is as wide as it was.
  def assert_browser
    browser.wait_for("document.querySelectorAll('#rows tr').length >= 8")
    %w[2 3 6 7 8].each do |key|
      browser.press(key)
      browser.wait_for("document.querySelector('#screens [aria-current=true] kbd').textContent === '#{key}' && " \
                       "(#{key} === 7 || document.querySelectorAll('#rows tr').length > 0)")
      allowed = "#rows :not(tr, td, span, button)"
      assert_equal 0, browser.value("document.querySelectorAll('#{allowed}, script[src], img, #rows svg').length"), key
      refute_match(/[\u0000-\u0008\u000e-\u001f\u007f-\u009f\u202a-\u202e\u2066-\u2069]/, browser.text)
      assert_operator browser.value("document.documentElement.scrollWidth"), :<=, 1280
    end
    assert_nil browser.value("window.hit")
    assert_empty browser.complaints
  end

  # Each line stands where it did.
  def assert_terminal
    %w[2 3 6 7].each do |key|
      @terminal.press(key)
      @terminal.wait_for(/\[#{key} /)
      screen = @terminal.screen
      assert_equal 24, screen.size
      assert_match(/\Aabaca #{Abaca::VERSION} /o, screen.first)
      assert_match(/q quit\z/, screen.last)
      refute_match(/owned\z/, screen.join("\n"))
    end
  end

  # JSON of all kinds is one line each, text moves no cursor, and each line of the metrics is one.
  def assert_texts
    out, status = Open3.capture2(*top("--json", "-n", "2"))
    assert_predicate status, :success?
    assert_equal [1, 1], out.lines.map { |line| JSON.parse(line).fetch("v") }
    %w[requests?waits=1 kept routes waits events clients stalls loops].each do |look|
      text = ask("/#{look}")
      assert_equal 1, text.lines.size, look
      assert_predicate text.force_encoding("UTF-8"), :valid_encoding?
      refute_match(/[\u0000-\u001f\u007f-\u009f\u200e\u200f\u2028-\u202e\u2066-\u2069]/, text.chomp, look)
      assert_equal 1, JSON.parse(text).fetch("v")
      table = request("GET", "/#{look}", Accept: "text/plain", **TOKEN).body
      refute_match(/[^\n\x20-\x7e\u00a0-\u{10ffff}]/, table.force_encoding("UTF-8"), look)
    end
    ask("/metrics").each_line(chomp: true) do |line|
      assert_match(/\A(# (HELP|TYPE) \w+ .*|\w+(\{(\w+="([^"\\]|\\[\\"n])*",?)*\})? \S+)\z/n, line.b)
    end
    refute_match(/[^\n\x20-\x7e\x80-\xff]/n, @server.text.b, "the log")
  end
end
