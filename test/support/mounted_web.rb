# frozen_string_literal: true

require "abaca"
require "json"
require "net/http"

# Asks an app of Rails for the dashboard that it has at /abaca, behind a login: GET of /login has a token,
# which POST of it needs.
module MountedWeb
  SECONDS = 60
  FORM = { "Content-Type" => "application/x-www-form-urlencoded" }.freeze

  # @param port [Integer] of the app
  # @return [String] the session's cookie
  def log_in(port)
    web(port) do |http|
      page = http.get("/login")
      token = URI.encode_www_form(authenticity_token: page.body[/name="authenticity_token" value="([^"]+)"/, 1])
      answer = http.post("/login", token, "Cookie" => page["set-cookie"][/[^;]+/], **FORM)
      assert_equal "204", answer.code, answer.body
      answer["set-cookie"][/[^;]+/]
    end
  end

  # Nobody but who has logged in sees it, and it is live.
  def assert_behind_login(port)
    ["", "/", "/live", "/request?worker=0&id=1", "/workers/0/gc"].each do |path|
      assert_equal "404", web(port) { |http| http.get("/abaca#{path}") }.code, path
    end
    cookie = log_in(port)
    page = web(port) { |http| http.get("/abaca", "Cookie" => cookie) }
    assert_equal ["200", Abaca::Dashboard::Assets.policy], [page.code, page["content-security-policy"]], page.body
    assert_includes page.body, 'data-base="/abaca/"'
    looks = looks_of(port, cookie, 3)
    assert_equal ["requests"] * 3, looks.map { |look| look[:screen] }
    assert_operator looks[2][:at], :>, looks[1][:at]
    [cookie, page]
  end

  # What the page does is done, if it is asked for by POST, from that page.
  def assert_acts(port, cookie, page)
    place = "http://127.0.0.1:#{port}"
    all = [cookie, page["set-cookie"][/abaca_web=\h+/]].join("; ")
    good = { **FORM, "Cookie" => all, "Origin" => place, "X-Abaca-Token" => page.body[/data-token="(\h{64})"/, 1] }
    web(port) do |http|
      assert_equal "405", http.send_request("PUT", "/abaca/workers/0/gc", "", good).code
      assert_equal "404", http.get("/abaca/workers/0/gc", good).code
      [good.except("Origin"), good.except("X-Abaca-Token"), good.merge("Origin" => "http://evil.test"),
       good.merge("Cookie" => cookie)].each do |fields|
        assert_equal "403", http.post("/abaca/workers/0/gc", "", fields).code, fields.inspect
      end
      answer = http.post("/abaca/workers/0/gc", "", good)
      assert_equal "200", answer.code, answer.body
      assert_equal "404", http.post("/abaca/stop", "", good).code
    end
  end

  private

  def web(port, &) = Net::HTTP.start("127.0.0.1", port, read_timeout: SECONDS, &)

  # The first looks of a stream, which ends with its client.
  def looks_of(port, cookie, count)
    looks = []
    web(port) do |http|
      http.request(Net::HTTP::Get.new("/abaca/live?screen=requests", "Cookie" => cookie)) do |answer|
        assert_equal ["200", "text/event-stream"], [answer.code, answer["content-type"]]
        rest = +""
        answer.read_body do |piece|
          rest << piece
          while (event = rest.slice!(/\A.*?\n\n/m))
            looks << JSON.parse(event[/^data: (.*)$/, 1], symbolize_names: true)
          end
          return looks.first(count) if looks.size >= count
        end
      end
    end
    flunk "the stream has ended after #{looks.size} looks"
  end
end
