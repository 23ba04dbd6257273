# frozen_string_literal: true

require_relative "board_case"
require "abaca/control"
require "digest"

# The page as it leaves, who gets it, and what it is fed with.
class DashboardPageTest < Minitest::Test
  include BoardCase

  ASSETS = Abaca::Dashboard::Assets
  EMPTY = %w[meta link br input img].freeze

  def document(**given)
    page = Abaca::Page.create(slots: 2)
    Abaca::Dashboard.new(page).document(base: "/", **given)
  ensure
    page.close
  end

  # Every element that begins ends, in its own order.
  def test_it_is_well_formed
    html = document.gsub(%r{<(script|style)>.*?</\1>}m, "<\\1></\\1>")
    assert html.start_with?("<!DOCTYPE html>\n")
    open = []
    html.scan(%r{<(/?)([a-z]\w*)((?:\s+[\w-]+(?:="[^"<>]*")?)*)\s*>}) do |close, name|
      next if EMPTY.include?(name)

      close.empty? ? open << name : assert_equal(open.pop, name)
    end
    assert_empty open
    assert_equal html.count("<"), html.scan(%r{</?[a-z]|<!DOCTYPE}).size
    ids = html.scan(/ id="([^"]*)"/).flatten
    assert_equal ids.uniq, ids
    named = html.scan(/ aria-labelledby="([^"]*)"/).flatten
    assert_operator named.size, :>, 5
    assert_empty named - ids
  end

  # Nothing is loaded from anywhere, nothing runs that is not this script, and no text becomes HTML.
  def test_its_policy
    html = document
    policy = ASSETS.policy
    %w[script style].each do |name|
      content = html[%r{<#{name}>(.*?)</#{name}>}m, 1]
      assert_includes policy, "#{name}-src 'sha256-#{Digest::SHA256.base64digest(content)}'"
      assert_equal 1, html.scan("<#{name}").size
    end
    refute_match(/unsafe|\*|https?:|nonce/, policy)
    assert_match(/default-src 'none'.*frame-ancestors 'none'.*require-trusted-types-for 'script'/, policy)
    refute_match(%r{https?://(?!www\.w3\.org/2000/svg")}, html)
    refute_match(/\s(on\w+|style)=/, html.gsub(%r{<(script|style)>.*?</\1>}m, ""))
    refute_match(/innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|new Function|DOMParser/, ASSETS.script)
    assert_operator html.bytesize, :<, 80_000
  end

  def test_what_it_is_given_is_escaped
    html = document(base: %(/"><script>x</script>/), help: "'<img src=x onerror=y>", token: "\">")
    assert_equal 1, html.scan("<script").size
    refute_includes html, "<img"
    assert_includes html, "data-base=\"/&quot;&gt;&lt;script&gt;x&lt;/script&gt;/\""
  end

  # A gem without them would have no page.
  def test_the_gem_has_its_files
    files = Gem::Specification.load(File.expand_path("../../abaca.gemspec", __dir__)).files
    here = Dir.children(File.expand_path("../../lib/abaca/dashboard", __dir__)).map do |name|
      "lib/abaca/dashboard/#{name}"
    end
    assert_operator here.size, :>, 10
    assert_empty here - files
  end

  def test_who_may
    serve
    refused = %w[/dashboard /live /request /live?screen=requests].map { |path| request("GET", path) }
    assert_equal [["403", "Invalid auth token"]], refused.map { |answer| [answer.code, answer.body] }.uniq
    cookie = follow
    assert_equal "403", Net::HTTP.get_response(URI(@link)).code, "a link is good once"
    page = request("GET", "/dashboard", Cookie: cookie)
    assert_equal ["200", "text/html; charset=utf-8", "no-store", "nosniff", "DENY"],
                 [page.code, *%w[content-type cache-control x-content-type-options x-frame-options].map do |one|
                   page[one]
                 end]
    assert_equal ASSETS.policy, page["content-security-policy"]
    { "Host" => "evil.test", "Origin" => "http://evil.test", "Sec-Fetch-Site" => "cross-site" }.each do |name, value|
      assert_equal "403", request("GET", "/live", Cookie: cookie, "#{name}": value).code, name
    end
    assert_equal "404", request("GET", "/request?worker=0&id=99", Cookie: cookie).code
    assert_equal "404", request("GET", "/request?worker=x&id=", Cookie: cookie).code
  end

  # Who has no right learns nothing of what there is: neither by the answer's text nor by its fields.
  def test_who_has_no_right_learns_nothing
    serve
    names = [*Abaca::Control::Catalogue.names - ["open"], "", "nothing", "workers/0/gc", "workers/99/gc",
             "log-level?level=debug", "set?max_queue=1", "cancel?id=0.1", "request?worker=0&id=1", "../etc/passwd",
             "live?token=x"]
    answers = %w[GET POST].product(names).map do |verb, name|
      answer = request(verb, "/#{name}", Authorization: "Bearer #{'0' * 32}", Cookie: "abaca_control_00000000=00")
      [answer.code, answer.body, answer.to_hash]
    end
    assert_operator answers.size, :>, 60
    assert_equal 1, answers.uniq.size, answers.uniq.inspect
    assert_equal ["403", "Invalid auth token"], answers.first.first(2)
    assert_equal %w[cache-control connection content-length content-type x-content-type-options],
                 answers.first.last.keys.sort
    refute_match(/#{Abaca::VERSION}|ruby|abaca/i, answers.first.last.to_s)
    assert_equal "403", request("GET", "/open?code=#{'0' * 64}").code
  end

  # A link that was used is not good for the next watch, which has one of its own.
  def test_links_end_with_their_watch
    serve
    cookie = follow
    watch = Integer(`pgrep -f '[a]baca: watch: #{@server.pid}'`)
    Process.kill(:KILL, watch)
    @server.wait_for(/is started anew.*#{LINK}/m)
    fresh = @server.text.scan(LINK).last.first
    refute_equal @link, fresh
    assert_equal @link[/:\d+/], fresh[/:\d+/]
    assert_equal "403", Net::HTTP.get_response(URI(@link)).code
    assert_equal "403", request("GET", "/live", Cookie: cookie).code
    assert_equal "200", request("GET", "/dashboard", Cookie: follow(fresh)).code
    assert_equal "403", Net::HTTP.get_response(URI(fresh)).code
  end

  # A browser finds it where it was, and nobody is refused meanwhile.
  def test_a_hot_restart_keeps_its_port
    serve
    @server.signal(:USR2)
    links = -> { @server.text.scan(LINK).map(&:first) }
    answers = 0
    until links.call.size == 2
      assert_equal "403", request("GET", "/live").code
      answers += 1
    end
    assert_operator answers, :>, 0
    old, fresh = links.call
    assert_equal old[/:\d+/], fresh[/:\d+/]
    assert_equal "403", Net::HTTP.get_response(URI(old)).code
    assert_equal "200", request("GET", "/dashboard", Cookie: follow(fresh)).code
  end

  # A page of another site cannot have anything done, even where the browser sends the cookie.
  def test_acts
    serve
    cookie = follow
    html = request("GET", "/dashboard", Cookie: cookie).body
    refute_includes html, "Phased restart", "the banner's link allows acts that end nothing"
    page = { Cookie: cookie, Origin: @place, "X-Abaca-Token": secret }
    path = "/workers/0/gc"
    assert_equal "405", request("GET", path, **page).code
    [page.except(:Origin), page.except(:"X-Abaca-Token"), page.merge("X-Abaca-Token": secret.reverse),
     page.merge(Origin: "http://evil.test"), page.except(:Cookie)].each do |fields|
      assert_equal "403", request("POST", path, **fields).code, fields.keys.inspect
    end
    answer = request("POST", path, **page)
    assert_equal "200", answer.code, answer.body
    assert_equal "403", request("POST", "/stop", **page).code
    assert_equal "404", request("POST", "/cancel?id=0.12345", **page).code
  end

  # Browsers send the cookie to each port of the host, the app's included. With it, all can be looked at; nothing that
  # the server says then is of use for an act.
  def test_a_cookie_allows_looking_only
    serve
    cookie = follow
    looks = %w[/dashboard /request?worker=0&id=1 /config /workers /set]
    pages = looks.map { |path| request("GET", path, Cookie: cookie) }
    assert_equal %w[200 404 200 200 200], pages.map(&:code)
    value = cookie[/=(\h{64})\z/, 1]
    guesses = [value, Digest::SHA256.hexdigest("page of #{value}"), *pages.map(&:body).join.scan(/\h{64}/), ""].uniq
    refute_includes guesses, secret
    guesses.each do |guess|
      ["/workers/0/gc", "/link", "/set?max_queue=1", "/profile?seconds=0.1"].each do |path|
        answer = request("POST", path, Cookie: cookie, Origin: @place, "X-Abaca-Token": guess)
        assert_equal ["403", "A cookie only lets you look"], [answer.code, answer.body], path
      end
    end
  end

  # Nor is the secret of one link of use with the cookie of another one: a link that was used may stand in a log.
  def test_a_secret_goes_with_its_cookie
    serve("--control-url", "tcp://127.0.0.1:0", "--control-token", "secret")
    links = %w[read operate].map do |level|
      JSON.parse(request("POST", "/link?level=#{level}", Authorization: "Bearer secret").body).fetch("url")
    end
    cookies = links.map { |link| follow(link) }
    codes = cookies.product(links).map do |cookie, link|
      request("POST", "/workers/0/gc", Cookie: cookie, Origin: @place, "X-Abaca-Token": secret(link)).code
    end
    assert_equal %w[403 403 403 200], codes
    assert_equal "403", request("POST", "/workers/0/gc", Cookie: cookies.last, Origin: @place,
                                                         "X-Abaca-Token": secret).code, "its link was not followed"
  end

  def test_looks
    serve
    write("scene")
    found, = first_event("/live?screen=requests&sort=since&filter=waits", Cookie: follow)
    assert_equal [1, "requests", "seconds", [0]], found.values_at(:v, :screen, :width, :workers)
    assert_equal ["since", false, 1], found[:table].values_at(:sort, :rising, :total)
    assert_equal "/waits", found.dig(:table, :rows, 0, :path)
    assert_equal [["stall", "app/reports.rb:41"]], found[:events].map { |event| event.values_at(:kind, :text) }
    assert_equal 1 + Abaca::Dashboard::Live::HISTORY.size, found[:history].first.size
    assert_equal({ db: 2 }, found[:overview][:states].select { |_, mean| mean.positive? })
  end

  def test_an_event_is_sent_once
    page = Abaca::Page.create(slots: 2)
    slot = page[0].claim
    live = Abaca::Dashboard.new(page).live(->(_name) {})
    sent = %w[first second].map do |text|
      slot.note(:death, text)
      look = nil
      assert(eventually { !(look = live.next).empty? })
      JSON.parse(look.delete_prefix("data: "))["events"].map { |event| event["text"] }
    end
    assert_equal [["first"], ["second"]], sent
  ensure
    page.close
  end

  # Whoever asks for nonsense gets the first screen.
  def test_looks_at_nonsense
    serve
    cookie = follow
    ["", "?screen=%00&sort=__proto__&width=-1&worker=a&filter=#{'%FF' * 300}", "?screen[]=x&turned=%E2"].each do |query|
      found, = first_event("/live#{query}", Cookie: cookie)
      assert_equal "workers", found[:screen], query
    end
  end

  # The watch answers while its server is stopped, and with it all of its loops.
  def test_a_stopped_server
    need_platform(:proc)
    serve
    cookie = follow
    first_event("/live", Cookie: cookie)
    @server.signal(:STOP)
    times = Array.new(5) { first_event("/live?screen=requests", Cookie: cookie).last }
    sleep 0.5 # looks are shared for a moment
    found, = first_event("/live", Cookie: cookie)
    assert_equal [@server.pid], found.dig(:overview, :stopped)
    assert_operator times.min, :<, 0.15
  ensure
    @server&.signal(:CONT)
  end

  # Streams end with the server, and keep it no longer.
  def test_streams_end_with_the_server
    serve
    cookie = follow
    stream = Thread.new { request("GET", "/live", Cookie: cookie).body.to_s.scan(/^data: /).size }
    sleep 1.5
    began = now
    @server.signal(:TERM)
    assert_predicate @server.wait, :success?
    assert_operator now - began, :<, 5
    assert_operator stream.value, :>, 1
  rescue EOFError, Errno::ECONNRESET
    flunk "the stream broke off"
  end

  def test_no_dashboard
    server = run_abaca(APP, "-e", "production")
    server.wait_for(/Use Ctrl-C/)
    refute_match(/Dashboard/, server.text)
    { "development" => "true", "production" => "true", "test" => "true" }.each do |name, value|
      config = Abaca::Config::Loader.new({ environment: name }, files: []).load
      before = ENV.fetch("ABACA_DASHBOARD", nil)
      ENV["ABACA_DASHBOARD"] = value
      assert_equal name == "development", config.dashboard?
    ensure
      ENV["ABACA_DASHBOARD"] = before
    end
  end

  # With a control server that has a port there is no other; one on a socket gets a port for browsers beside it.
  def test_beside_a_control_server
    server = serve("--control-url", "tcp://127.0.0.1:0", "--control-token", "secret")
    assert_equal server.text[/control server on (http\S+)/, 1], @place
    serve("--control-url", "unix://#{@directory}/control.sock", "--control-token", "secret")
    follow
    ruby = "#{RbConfig.ruby} -I#{$LOAD_PATH.join(' -I')}"
    link = `#{ruby} exe/abacactl -C unix://#{@directory}/control.sock -T secret dashboard`
    assert_match(%r{\A#{@place}/open\?code=\h{64}#\h{64}$}, link)
    html = request("GET", "/dashboard", Cookie: follow(link.chomp)).body
    assert_includes html, "Phased restart", "the whole token's link allows all"
  end
end
