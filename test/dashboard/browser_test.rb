# frozen_string_literal: true

require_relative "board_case"

# The page in headless Chromium.
class DashboardBrowserTest < Minitest::Test
  include BoardCase

  TITLES = ["Workers", "Requests", "Routes", "Waits", "Fibers, loops", "Clients", "Events", "Slow and failed"].freeze

  def teardown
    assert_empty @browser.complaints if @browser && @quiet != false
  ensure
    super
  end

  # The worker is stopped: its loop writes in its line now and then.
  def test_all_screens
    serve
    stopped(workers.fetch(0)) do
      write("scene")
      look
      walk_through_screens
    end
  end

  def walk_through_screens
    TITLES.each.with_index(1) do |title, number|
      browser.press(number.to_s)
      browser.wait_for("document.querySelector('#caption').textContent === #{title.to_json} && " \
                       "document.querySelectorAll('#rows tr').length > 0")
      assert_equal 1, browser.value("document.querySelectorAll('th[aria-sort]').length"), title
    end
    assert_equal ["/reports/7"], column("PATH")
    browser.click("#rows button.open")
    browser.wait_for("/Kept since.*slow/s.test(document.querySelector('#detail').innerText)")
    # Behind each wait, over all of it: another one has kept the loop.
    assert_equal browser.value("document.querySelectorAll('#detail .lane').length"),
                 browser.value("document.querySelectorAll('#detail .lane b').length")
    assert_operator browser.value("document.querySelector('#detail .lane b').offsetWidth"), :>, 30
    assert_match(%r{request 8, app/reports\.rb:41}, browser.value("document.querySelector('#detail').innerText"))
    refute_includes browser.value("document.body.innerText"), "[object"
    browser.press("Escape")
    browser.wait_for("!document.querySelector('#detail').open")
    browser.press("1")
    browser.wait_for("document.querySelectorAll('#rows tr').length === 1 && " \
                     "document.querySelector('#caption').textContent === 'Workers'")
    assert_equal [workers.fetch(0).to_s], column("PID").map { |text| text.delete(",") }
    assert_match(/Stall +worker 0 .*reports\.rb:41/, browser.value("document.querySelector('#stalls').textContent"))
  end

  def test_filter_sort_and_detail
    serve
    write("scene")
    look(2)
    browser.wait_for("document.querySelectorAll('#rows tr').length === 2")
    browser.press("/")
    assert_equal "filter", browser.value("document.activeElement.id")
    browser.press("w")
    browser.press("a")
    browser.press("i")
    browser.wait_for("document.querySelectorAll('#rows tr').length === 1")
    assert_equal ["/waits"], column("PATH")
    browser.press("Escape")
    browser.wait_for("document.querySelectorAll('#rows tr').length === 2")
    browser.press("r")
    browser.wait_for("document.querySelector('th[aria-sort=ascending]')?.textContent === 'AGE'")
    browser.press("j")
    browser.press("Enter")
    browser.wait_for("document.querySelector('#detail').open")
    text = browser.value("document.querySelector('#detail').innerText")
    assert_match(/10\.0\.0\.9:5432/, text)
    assert_match(/Where its time went.*db .*Its last waits/m, text)
    assert_operator browser.value("document.querySelectorAll('.lane i').length"), :>, 0
    browser.press("Escape")
    browser.wait_for("!document.querySelector('#detail').open")
  end

  HOSTILE = ["/<script>window.hit=1</script>", "/\"'><img src=x onerror=window.hit=1>", "/\u202egnp.exe\u2066\u200b",
             "/\xff\xfe\xc3(".b, "/#{'a' * 8192}", "/\e[2J\r\n\u0085", "/&lt;b&gt;&amp;", "/{{script}}${window.hit=1}",
             "/</td></tr></table><svg onload=window.hit=1>"].freeze

  # Clients send what they like: it is text, and it stands still.
  def test_hostile_paths
    serve
    write("paths", *HOSTILE)
    look(2)
    browser.wait_for("document.querySelectorAll('#rows tr').length === #{HOSTILE.size}")
    shown = column("PATH")
    HOSTILE.values_at(0, 1, 6, 7, 8).each { |path| assert_includes shown, path }
    assert_includes shown, "/\\u{202E}gnp.exe\\u{2066}\\u{200B}"
    assert_includes shown, "/\\u{1B}[2J\\u{D}\\u{A}\\u{85}"
    assert_includes shown, "/\u{FFFD}\u{FFFD}\u{FFFD}("
    assert_equal [128], shown.grep(/aaaa/).map(&:size)
    assert_nil browser.value("window.hit")
    assert_equal 0,
                 browser.value("document.querySelectorAll('#rows :not(tr, td, span, button), script[src], img').length")
    shown.size.times do |i|
      browser.value("document.querySelectorAll('#rows button.open')[#{i}].click()")
      browser.wait_for("document.querySelector('#detail').open")
      assert_equal 0, browser.value("document.querySelectorAll('#detail img, #detail script, #detail svg').length")
      browser.press("Escape")
      browser.wait_for("!document.querySelector('#detail').open")
    end
    assert_nil browser.value("window.hit")
    assert_operator browser.value("document.documentElement.scrollWidth"), :<=, 1280
  end

  # No line of a page can run what is not in it.
  def test_no_script_gets_in
    serve
    look
    @quiet = false
    ["one.setAttribute('onerror', 'window.hit = 1')", "one.innerHTML = '<b>x</b>'",
     "document.createElement('script').text = 'window.hit = 1'"].each do |attempt|
      assert_raises(RuntimeError, attempt) do
        browser.value("(() => { const one = document.createElement('img'); #{attempt}; })()")
      end
    end
    sleep 0.3
    assert_nil browser.value("window.hit")
    refute_empty browser.complaints
  end

  # A worker under SIGSTOP: the others go on, and the page says which one it is.
  def test_a_stopped_worker
    need_platform(:proc)
    serve("-w", "2")
    @server.wait_for(/Worker 1.*booted/)
    look
    pid = workers.fetch(1)
    Process.kill(:STOP, pid)
    browser.wait_for("/stopped: #{pid}/.test(document.querySelector('#facts').textContent)")
    browser.wait_for("/worker 1 .*process #{pid} is stopped/.test(document.querySelector('#stalls').textContent)")
    assert_equal %w[serving stopped], column("STATE").sort
    assert_equal "live", browser.value("document.querySelector('#state').textContent")
  ensure
    Process.kill(:CONT, pid) if pid
  end

  # The only process is stopped, so that no Ruby of it runs and all of its loops stall: the page lives on.
  def test_all_loops_stall
    need_platform(:proc)
    serve
    look
    @server.signal(:STOP)
    browser.wait_for("/is stopped/.test(document.querySelector('#stalls').textContent)")
    browser.visit("#{@place}/dashboard")
    live
    assert_match(/stopped: #{@server.pid}/, browser.text)
  ensure
    @server&.signal(:CONT)
  end

  def test_a_lost_line
    serve
    look
    watch = Integer(`pgrep -f '[a]baca: watch: #{@server.pid}'`)
    Process.kill(:STOP, watch)
    browser.wait_for("/^not connected since/.test(document.querySelector('#state').textContent)")
    Process.kill(:CONT, watch)
    live
    Process.kill(:KILL, watch) # which ends the browser's session
    browser.wait_for("/^not let in any more/.test(document.querySelector('#state').textContent)")
    @quiet = false
  end

  def test_hidden_and_paused
    serve
    look
    browser.hidden = true
    browser.wait_for("document.querySelector('#state').textContent === 'paused'")
    browser.hidden = false
    live
    browser.press("f")
    browser.wait_for("document.querySelector('#pause').getAttribute('aria-pressed') === 'true'")
    assert_equal "paused", browser.value("document.querySelector('#state').textContent")
    browser.click("#pause")
    live
  end

  # Nothing is done before somebody has said yes.
  def test_acts_ask
    serve
    look
    browser.wait_for("!!#{GC_BUTTON}")
    browser.value("#{GC_BUTTON}.click()")
    assert_equal "No", browser.value("document.activeElement.textContent"), "Enter alone does nothing"
    browser.press("Enter")
    browser.wait_for("!document.querySelector('#ask').open")
    assert_equal "", browser.value("document.querySelector('#message').textContent")
    assert_equal "Collect garbage: done", collect_garbage
  end

  GC_BUTTON = "[...document.querySelectorAll('#rows button.deed')].find((one) => one.textContent === 'Collect garbage')"
  NOTE = "document.querySelector('#read-only').textContent"

  def collect_garbage
    browser.wait_for("!!#{GC_BUTTON}")
    browser.value("#{GC_BUTTON}.click()")
    browser.click("#ask-yes")
    browser.wait_for("document.querySelector('#message').textContent.startsWith('Collect garbage: ')")
    browser.value("document.querySelector('#message').textContent")
  end

  # Those that are shown.
  def buttons
    browser.value("[...document.querySelectorAll('button.deed')].filter((one) => one.offsetWidth > 0).length")
  end

  # The secret leaves the address and stays in the tab that has followed the link, over reloads. Another tab of that
  # browser looks.
  def test_acts_of_one_tab
    serve
    look
    assert_equal "#{@place}/dashboard", browser.value("location.href")
    assert_equal "", browser.value(NOTE)
    browser.visit("#{@place}/dashboard")
    live
    assert_equal "Collect garbage: done", collect_garbage
    another_tab do
      browser.wait_for("document.querySelectorAll('#rows tr').length === 1")
      assert_equal 0, buttons
      assert_match(/\ARead-only\. The server prints a link when it starts\. With activate_/, browser.value(NOTE))
    end
    assert_operator buttons, :>, 0
  end

  def another_tab(link = "#{@place}/dashboard")
    browser.command("Target.createTarget", { url: "about:blank#other" }, session: nil)
    browser.in_tab("about:blank#other") do
      browser.visit(link)
      live
      yield
    end
  end

  # A second link of the same browser takes the place of the first cookie.
  def test_a_tab_whose_cookie_was_replaced
    serve("--control-url", "tcp://127.0.0.1:0", "--control-token", "secret")
    look
    link = JSON.parse(request("POST", "/link?level=read", Authorization: "Bearer secret").body).fetch("url")
    another_tab(link) do
      assert_equal [0, ""], [buttons, browser.value(NOTE)], "it has no acts, so no link would have more"
    end
    @quiet = false # of the 403
    assert_equal "Collect garbage: Not allowed with this token (403)", collect_garbage
    assert_equal 0, buttons
    assert_equal "Read-only. `abacactl dashboard` prints a link.", browser.value(NOTE)
  end

  # The app, on another port of the host, is sent the cookie, and nothing else.
  def test_what_the_app_is_sent
    serve(app: "run ->(env) { [200, { 'content-type' => 'text/plain' }, [env.to_s]] }")
    look
    browser.visit("http://127.0.0.1:#{@server.port}/")
    seen = browser.text
    refute_includes seen, secret
    fields = { Cookie: seen[/"HTTP_COOKIE" *=> *"([^"]*)"/, 1], Origin: @place }
    assert_equal "200", request("GET", "/dashboard", **fields).code, seen
    answer = request("POST", "/workers/0/gc", **fields)
    assert_equal ["403", "A cookie only lets you look"], [answer.code, answer.body]
  end

  def test_charts
    serve
    write("past")
    write("scene")
    look
    browser.wait_for("document.querySelectorAll('#charts path').length === 15 && " \
                     "document.querySelector('#charts path').getAttribute('d').length > 1000")
    labels = browser.value("[...document.querySelectorAll('#charts svg')].map((one) => one.getAttribute('aria-label'))")
    assert_equal 6, labels.size
    browser.wait_for("[...document.querySelectorAll('#charts .mark')].filter((mark) => " \
                     "/stall/.test(mark.textContent) && mark.getAttribute('y1') === '86').length === 6")
    labels.each { |label| assert_match(/\A[A-Z].*: .+ now .+; at most .+\./, label) }
    browser.click("[data-width=tens]")
    browser.wait_for("document.querySelector('.times span').textContent !== '' && " \
                     "document.querySelector('[data-width=tens]').getAttribute('aria-pressed') === 'true'")
    live
  end

  # On a phone nothing but tables scrolls sideways; every control has a name and can be reached by keys.
  def test_a_phone_and_a_reader
    serve
    write("scene")
    look(2)
    browser.wait_for("document.querySelectorAll('#rows tr').length === 2")
    [[390, 844], [1280, 900]].each do |width, height|
      browser.resize(width, height)
      %i[light dark].each do |scheme|
        browser.scheme = scheme
        assert_operator browser.value("document.documentElement.scrollWidth"), :<=, width
      end
    end
    back = %i[light dark].map do |scheme|
      browser.scheme = scheme
      browser.value("getComputedStyle(document.body).backgroundColor")
    end
    assert_equal 2, back.uniq.size
    assert_equal 0, browser.value("document.querySelectorAll('th:not([scope])').length")
    assert_equal 0, browser.value("[...document.querySelectorAll('button, input, select')].filter((one) => " \
                                  "!(one.textContent.trim() || one.ariaLabel || one.labels?.length)).length")
    browser.value("document.activeElement.blur()")
    browser.press("Tab")
    assert_equal "skip", browser.value("document.activeElement.className")
    refute_equal "none", browser.value("getComputedStyle(document.activeElement).outlineStyle")
  end
end
