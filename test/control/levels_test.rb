# frozen_string_literal: true

require "test_helper"
require "json"
require_relative "control_case"

# What tokens, and browsers, may do.
class ControlLevelsTest < Minitest::Test
  include ControlCase

  TOKENS = { admin: "aaa", operate: "ooo", read: "rrr" }.freeze
  LOOKS = %w[stats gc-stats workers].freeze

  # A server with all three.
  def three(url = "tcp://127.0.0.1:0", **options)
    control(url, token: "aaa", others: TOKENS.slice(:operate, :read), **options)
  end

  def bearer(level) = { "Authorization" => "Bearer #{TOKENS.fetch(level)}" }

  def code(answer) = answer[%r{\AHTTP/1\.1 (\d+) }, 1].to_i

  def test_levels
    address = three
    TOKENS.each_key { |level| LOOKS.each { |look| assert_equal 200, status(address, "/#{look}", **bearer(level)) } }
    operates = { admin: 200, operate: 200, read: 403 }
    TOKENS.each_key { |level| assert_equal operates[level], status(address, "/gc", **bearer(level)) }
    %i[read operate].each do |level|
      %w[stop halt restart phased-restart refork reload-worker-directory].each do |act|
        assert_equal [403, "Not allowed with this token"],
                     [status(address, "/#{act}", **bearer(level)), body(address, "/#{act}?token=#{TOKENS[level]}")]
      end
    end
    assert_empty launcher.calls
    assert_equal 200, status(address, "/stop?token=aaa")
  end

  # Neither what there is, nor how near one was.
  def test_without_a_token
    address = three
    found = ["/stats", "/workers", "/x", "/", "/link", "/workers/0/gc", "/config", "/stop?token=", "/config?token=aaa",
             "/open/stats"].map { |target| [get(address, target), post(address, target)] }.flatten
    assert_equal 1, found.uniq.size
    assert_equal 403, code(found.first)
    assert found.first.end_with?("Invalid auth token")
    %w[aa aaaa AAA rr].each do |token|
      assert_equal 403, status(address, "/stats", "Authorization" => "Bearer #{token}")
    end
    assert_empty launcher.calls
  end

  def test_tokens_that_mean_nothing
    address = Control::Address.parse("tcp://127.0.0.1:1")
    { ["none", { read: "a" }] => /exclude each other/, ["a", { read: "a" }] => /are the same/,
      ["a", { operate: "b", read: "b" }] => /are the same/, ["a", { read: "" }] => /is empty/ }.each do |given, message|
      assert_match message, assert_raises(Abaca::ConfigError) { Control::Guard.new(address, *given) }.message
    end
  end

  # A socket that is its owner's alone may have been reached by another way.
  def test_other_users_of_a_socket
    stranger = Struct.new(:getpeereid).new([Process.euid + 1, 0])
    request = Control::Request.new("GET /stats HTTP/1.0")
    { "unix:///a" => true, "auto" => true, "unix:///a?mode=660" => false }.each do |url, refused|
      refusal = Control::Guard.new(Control::Address.parse(url), "none").refusal(request, stranger, query: true)
      assert_equal refused, refusal == "Not a user of this server", url
    end
  end

  # Acts whose paths have more in them than their names are there under no other path: a worker's number is not guessed.
  def test_acts_have_one_path
    address = three
    Control::Catalogue.names.grep(/\A(?:worker|set)-/).each do |name|
      %W[/#{name} /workers/#{name} /workers/-1/#{name}].each do |path|
        answer = post(address, path, **bearer(:admin))
        assert_equal [404, "Unsupported action"], [code(answer), answer.split("\r\n\r\n").last], path
      end
    end
    assert_empty @log.string
  end

  # What is none leaves no line in the log, whatever its bytes are.
  def test_levels_of_links
    address = three
    %w[loud %ff %00].each do |level|
      assert_equal 403, code(post(address, "/link?level=#{level}", **bearer(:admin))), level
    end
    assert_empty @log.string
  end

  def test_acts_of_ours_are_posted
    address = three
    answer = get(address, "/log-level?level=debug", **bearer(:admin))
    assert_match(/ 405 .*^Allow: POST\r$/m, answer)
    assert_equal({ "v" => 1, "level" => "info" }, JSON.parse(body(address, "/log-level", **bearer(:read))))
    assert_equal "level info\n", body(address, "/log-level", "Accept" => "text/plain", **bearer(:read))
    assert_equal 403, code(post(address, "/log-level?level=debug", **bearer(:read)))
    answer = post(address, "/log-level?level=debug", **bearer(:operate))
    assert_equal({ "v" => 1, "level" => "debug" }, JSON.parse(answer.split("\r\n\r\n").last))
    assert @logger.debug?
    answer = post(address, "/log-level?level=%0Aloud", **bearer(:operate))
    assert_equal [422, %(unknown log level: :"\\nloud")], [code(answer), answer.split("\r\n\r\n").last]
    assert @logger.debug?
  end

  # A page of another site can have a browser send a GET, and an old browser does not say where it comes from. Over a
  # unix socket no browser comes, and it has no token: pumactl sends a GET to both.
  def test_acts_without_a_token_on_a_port_are_posted
    address = control("tcp://127.0.0.1:0")
    %w[stop halt restart phased-restart refork gc reload-worker-directory].each do |act|
      assert_match(/ 405 .*^Allow: POST\r$/m, get(address, "/#{act}"), act)
      assert_equal 405, code(call(address, "HEAD", "/#{act}"))
    end
    assert_empty launcher.calls
    assert_equal [200, 200], [status(address, "/stats"), code(post(address, "/stop"))]
    words = ["-C", address.to_s, "-T", "none"]
    assert_equal [0, "Command halt sent success\n", ""], abacactl(*words, "halt")
    assert_match(/reload_certificates not available/, abacactl(*words, "reload-certificates").last)
    assert_equal 200, status(control, "/stop")
    assert_equal 200, status(control("tcp://127.0.0.1:0", token: "secret"), "/stop?token=secret")
    assert_equal %i[stop halt stop stop], launcher.calls
  end

  # From a terminal, by a link that works once: its cookie, and the secret that no server is sent with it.
  def browser(address, level)
    answer = JSON.parse(post(address, "/link", **bearer(level)).split("\r\n\r\n").last)
    path, secret = answer.fetch("path").split("#")
    assert_equal "http://127.0.0.1:#{address.port}#{path}##{secret}", answer["url"]
    opened = get(address, path, "Host" => "127.0.0.1:#{address.port}", "Sec-Fetch-Site" => "none")
    assert_match(%r{ 303 See Other\r\n.*^Location: /dashboard\r$}m, opened)
    assert_match(%r{^Set-Cookie: abaca_control_\h{8}=\h{64}; Path=/; Max-Age=43200; HttpOnly; SameSite=Strict\r$},
                 opened)
    assert_equal 403, status(address, path), "twice"
    [opened[/^Set-Cookie: (\S+=\h+);/, 1], secret]
  end

  def test_a_browser
    address = three
    place = "127.0.0.1:#{address.port}"
    cookie, secret = browser(address, :admin)
    fields = { "Host" => place, "Cookie" => "a=b; #{cookie}", "Sec-Fetch-Site" => "same-origin" }
    assert_equal 200, status(address, "/stats", **fields)
    assert_equal 403, status(address, "/stop", **fields), "an image of a page could ask for it"
    assert_equal 403, status(address, "/stop?token=x", **fields)
    assert_equal 403, code(post(address, "/stop", **fields.except("Sec-Fetch-Site"))), "it does not say from where"
    assert_equal 403, code(post(address, "/stop", **fields, "Origin" => "http://127.0.0.1:1"))
    assert_equal 403, code(post(address, "/stop", **fields, "Sec-Fetch-Site" => "same-site"))
    assert_equal 403, status(address, "/stats", **fields, "Host" => "evil.test")
    assert_empty launcher.calls
    fields["Origin"] = "http://#{place}"
    assert_equal 403, code(post(address, "/stop", **fields)), "every port of the host gets the cookie"
    assert_equal 403, code(post(address, "/stop", **fields, "X-Abaca-Token" => "0" * 64))
    assert_empty launcher.calls
    assert_equal 200, code(post(address, "/stop", **fields, "X-Abaca-Token" => secret))
    assert_equal %i[stop], launcher.calls
  end

  def test_a_browser_has_no_more_than_who_asked
    address = three
    cookie, secret = browser(address, :read)
    fields = { "Host" => "127.0.0.1:#{address.port}", "Cookie" => cookie, "Sec-Fetch-Site" => "same-origin",
               "X-Abaca-Token" => secret }
    assert_equal 200, status(address, "/stats", **fields)
    assert_equal 403, code(post(address, "/stop", **fields))
    assert_equal 403, code(post(address, "/link?level=admin", **bearer(:read)))
    assert_equal 403, code(post(address, "/link?level=root", **bearer(:admin)))
    assert_equal "read", JSON.parse(post(address, "/link?level=read", **bearer(:admin)).split("\r\n\r\n").last)["level"]
    assert_equal [403, 405], [status(address, "/open?code="), status(address, "/link", **bearer(:admin))]
    assert_empty launcher.calls
  end

  def test_links_and_cookies_end
    now = 0
    sessions = Control::Sessions.new("name", clock: -> { now })
    open = ->(link) { sessions.open(link[/code=(\h+)/, 1]) }
    link = sessions.link(:read)
    cookie = open.call(sessions.link(:operate))[/\A[^;]+/]
    now = Control::Sessions::LINK
    assert_nil open.call(link)
    assert_equal :operate, sessions.level("other=1; #{cookie}")
    now = Control::Sessions::COOKIE
    assert_nil sessions.level(cookie)
    links = Array.new(100) { sessions.link(:read) }
    assert_equal([nil, true], [open.call(links.first), !open.call(links.last).nil?])
  end

  # A table, where somebody looks at it.
  def test_text
    address = three
    launcher.define_singleton_method(:stats) { { started_at: "now", backlog: 1, abaca: { path: "/\e[2J" } } }
    text = get(address, "/workers", **bearer(:read), "Accept" => "text/plain, application/json;q=0.5")
    assert_match(%r{^Content-Type: text/plain; charset=utf-8\r$}, text)
    assert_match(/^workers \(1\)\nstarted_at +pid +index/, text)
    assert_includes text, "/\\x1B[2J"
    assert_equal 1, body(address, "/workers", **bearer(:read), "Accept" => "*/*").lines.size
    assert_equal 1, body(address, "/workers", **bearer(:read), "Accept" => "application/json, text/plain").lines.size
  end

  # A launcher that does not answer has not changed anything, so nobody says that it has, and no next worker is told.
  def test_a_setting_that_is_not_changed
    changes = {}
    config = Abaca::Config.new({ max_queue: 7 })
    hangs = Struct.new(:answer) { def ask(*, **) = answer }.new
    address = control(looks: Control::Looks.new(config, nil, hangs, nil, changes), token: "aaa", acts: hangs)
    assert_equal 504, code(post(address, "/set?max_queue=3", **bearer(:admin)))
    assert_empty changes
    assert_equal({ "max_queue" => 7 }, JSON.parse(body(address, "/set", **bearer(:admin))).fetch("set"))
  end
end
