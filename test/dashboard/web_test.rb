# frozen_string_literal: true

require_relative "board_case"
require "rack/lint"

# The dashboard as a Rack app: what a server shows of itself.
class DashboardWebTest < Minitest::Test
  include BoardCase

  APP = <<~RUBY
    require "rack/lint"
    use Rack::Lint
    map("/abaca") { run Abaca::Web }
    map("/acts") { run Abaca::Web.new(acts: true) }
    map("/threads") { run ->(_) { [200, { "content-type" => "text/plain" }, [Thread.list.map(&:name).inspect]] } }
  RUBY

  def mount(*arguments)
    serve(*arguments, app: APP)
    @place = "http://127.0.0.1:#{@server.port}"
  end

  def test_page_and_looks
    mount
    page = request("GET", "/abaca")
    assert_equal ["200", Abaca::Dashboard::Assets.policy], [page.code, page["content-security-policy"]], page.body
    assert_includes page.body, 'data-base="/abaca/"'
    assert_includes page.body, 'data-deeds="[]"', "it shows, and does nothing"
    assert_equal ["200", nil], request("HEAD", "/abaca/").then { |answer| [answer.code, answer.body] }
    assert_equal %w[404 404 404 405], [request("GET", "/abaca/x"), request("GET", "/abaca/request?id=1"),
                                       request("POST", "/abaca/workers/0/gc"), request("PUT", "/abaca")].map(&:code)
  end

  def test_streams_on_fibers_and_threads
    %w[fiber thread].each do |mode|
      mount("--mode", mode)
      found, = first_event("/abaca/live?screen=requests")
      assert_equal "requests", found[:screen]
      path = found.dig(:table, :rows, 0, :path) # on a thread it is no request any more
      assert_equal [mode == "fiber" ? "/abaca/live" : nil], [path]
      streams = Array.new(8) { TCPSocket.new("127.0.0.1", @server.port) }
      streams.each do |socket|
        socket.write("GET /abaca/live HTTP/1.1\r\nHost: a\r\n\r\n")
        assert_includes socket.readpartial(9_999), "200 OK"
      end
      assert_equal "200", request("GET", "/threads").code, "eight streams leave threads for others"
      @server.signal(:TERM)
      assert_predicate @server.wait, :success?
      streams.each(&:close)
    end
  end

  def test_acts
    mount
    page = request("GET", "/acts")
    cookie = page["set-cookie"][/\A[^;]+/]
    assert_match(%r{; Path=/acts/; HttpOnly; SameSite=Strict\z}, page["set-cookie"])
    good = { Cookie: cookie, Origin: @place, "X-Abaca-Token": page.body[/data-token="(\h{64})"/, 1] }
    [{}, good.except(:Cookie), good.except(:Origin), good.merge(Origin: "http://evil.test"),
     good.merge("X-Abaca-Token": "0" * 64), good.merge("Sec-Fetch-Site": "cross-site")].each do |fields|
      assert_equal "403", request("POST", "/acts/workers/0/gc", **fields).code, fields.inspect
    end
    answer = request("POST", "/acts/workers/0/gc", **good)
    assert_equal "200", answer.code, answer.body
    ["/acts/stop", "/acts/restart", "/acts/cancel", "/acts/cancel?id=x", "/acts/cancel?id=0.99999"].each do |path|
      assert_equal "404", request("POST", path, **good).code, path
    end
  end

  # Elsewhere it says so.
  def test_without_a_page
    script = "require 'abaca'; puts Abaca::Web.call('REQUEST_METHOD' => 'GET', 'PATH_INFO' => '/').values_at(0, 2)"
    text = IO.popen([RbConfig.ruby, *$LOAD_PATH.map { |path| "-I#{path}" }, "-e", script], &:read)
    assert_match(/\A503\nAbaca's dashboard has nothing to show here: .*\.\n\z/, text)
  end
end
