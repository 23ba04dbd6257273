# frozen_string_literal: true

require_relative "board_case"

# Profiles from the page: a question, ten seconds (one here), and a chart in a tab of its own.
class DashboardProfileTest < Minitest::Test
  include BoardCase

  # Names of routes and files are the app's: here the worst ones.
  HOSTILE = %(</text></svg><script>window.hit=1</script>;<img src=x onerror=window.hit=1>]]>\e[2J)
  APP = <<~RUBY.freeze
    hostile = #{HOSTILE.dump}
    eval("def hostile_line = sleep(0.02)", binding, hostile, 7)
    def wait_here = sleep(0.02)
    def wait_for_file
      wait_here until File.exist?("go")
    end
    run(lambda do |env|
      env["abaca.route"] = hostile
      env["PATH_INFO"] == "/hostile" ? (hostile_line until File.exist?("go")) : wait_for_file
      [200, { "content-type" => "text/plain" }, ["done"]]
    end)
  RUBY
  SECOND = "window.fetch = ((ask) => (path, ...rest) => ask(path.replace('seconds=10', 'seconds=1'), ...rest))(fetch)"

  def teardown
    File.write("#{@directory}/go", "")
    @clients&.each(&:close)
    super
  end

  def wait_in_app(path)
    (@clients ||= []) << TCPSocket.new("127.0.0.1", @server.port).tap do |socket|
      socket.write("GET #{path} HTTP/1.1\r\nHost: a\r\n\r\n")
    end
  end

  def button(title)
    "[...document.querySelectorAll('#server-deeds button')].find((one) => one.textContent === '#{title}')"
  end

  # Asks for it, says yes, and follows the link by keyboard.
  def take(title)
    browser.value("#{button(title)}.click()")
    assert_equal "No", browser.value("document.activeElement.textContent"), "Enter alone does nothing"
    browser.click("#ask-yes")
    browser.wait_for("/goes on$/.test(document.querySelector('#chart').textContent)")
    browser.wait_for("!!document.querySelector('#chart a')")
    assert_equal "noopener", browser.value("document.querySelector('#chart a').rel")
    browser.value("document.querySelector('#chart a').focus()")
    browser.press("Enter")
  end

  def shown(pattern)
    browser.value("[...document.querySelectorAll('.box:not(.away)')].filter((one) => " \
                  "#{pattern.inspect}.test(one.getAttribute('aria-label'))).length")
  end

  def test_waits
    serve(app: APP)
    %w[/hostile /hostile /plain].each { |path| wait_in_app(path) }
    look(2)
    browser.wait_for("document.querySelectorAll('#rows tr').length === 3")
    browser.value(SECOND)
    take("Profile 10 s: waits")
    browser.in_tab("#{@place}/chart") do
      assert_operator shown(/config\.ru:3 in .*wait_here/), :>, 0, "the line that waits"
      search_by_keys
      widen_by_keys
      assert_harmless
    end
    assert_nil browser.value("window.hit")
    assert_empty browser.complaints
  end

  # The search field is the first that Tab reaches.
  def search_by_keys
    browser.press("Tab")
    "wait_here".each_char { |char| browser.press(char) }
    browser.wait_for("/% of the time$/.test(document.querySelector('#found').textContent)")
    assert_equal 1, browser.value("document.querySelectorAll('.found').length")
    assert_in_delta 33, browser.value("document.querySelector('#found').textContent").to_f, 8
  end

  # The box in focus becomes as wide as the picture; Escape shows all again.
  def widen_by_keys
    all = shown(/./)
    browser.value("[...document.querySelectorAll('.box')].find((one) => /in .*wait_here/.test(one.ariaLabel)).focus()")
    browser.press("Enter")
    assert_match(/wait_here.*: [\d.]+ s/, browser.value("document.querySelector('#detail').textContent"))
    assert_equal "1200", browser.value("document.activeElement.querySelector('rect').getAttribute('width')")
    assert_operator shown(/./), :<, all
    browser.press("Escape")
    assert_equal all, shown(/./)
  end

  # What is named like markup is text, and no byte of it is a control character.
  def assert_harmless
    names = browser.value("[...document.querySelectorAll('.box text')].map((one) => one.dataset.name)")
    assert_operator names.grep(/window\.hit/).size, :>=, 2, names.inspect
    assert_empty names.grep(/[\u0000-\u001f]/)
    assert_nil browser.value("window.hit")
    assert_equal [1, 0], browser.value("['script', 'img, :not(svg) > svg'].map((one) => " \
                                       "document.querySelectorAll(one).length)")
  end

  # With requests that keep their loop there is something to see; a second profile takes the place of the first.
  def test_stalls_and_who_may_see_the_chart
    serve(app: APP)
    cookie = follow
    assert_equal "404", request("GET", "/chart", Cookie: cookie).code, "none was taken"
    %w[wait stall].each do |kind|
      answer = request("POST", "/profile?seconds=0.2&format=svg&kind=#{kind}", Cookie: cookie, Origin: @place,
                                                                               "X-Abaca-Token": secret)
      assert_equal "200", answer.code, answer.body
      chart = request("GET", "/chart", Cookie: cookie)
      assert_equal ["200", "image/svg+xml; charset=utf-8", "nosniff", Abaca::Profile::Chart.policy, answer.body],
                   [chart.code, *%w[content-type x-content-type-options content-security-policy].map do |one|
                     chart[one]
                   end, chart.body]
      assert_includes chart.body, "#{kind} profile"
    end
    assert_equal "403", request("GET", "/chart").code
    assert_equal "403", request("GET", "/chart", Cookie: cookie, Origin: "http://evil.test").code
  end
end
