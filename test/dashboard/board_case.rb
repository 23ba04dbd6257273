# frozen_string_literal: true

require "test_helper"
require "abaca"
require "json"
require "net/http"
require "support/browser"
require "support/page_writer"
require "support/process_case"
require "support/programs"

# For tests of the dashboard: a server with a link in its banner, and a browser that has followed it.
module BoardCase
  include ProcessCase
  include Programs

  APP = 'run ->(env) { [200, { "content-type" => "text/plain" }, ["hello"]] }'
  LINK = %r{Dashboard: (http://127\.0\.0\.1:(\d+)/open\?code=\h{64}#\h{64})$}

  # All tests of a process share one: it takes a second to start.
  def self.browser
    @browser ||= Browser.new.tap { |browser| Minitest.after_run { browser.close } }
  end

  def teardown
    super
  ensure
    @browser&.visit("about:blank")
  end

  # On Debian's Ruby: the page is the same on the others.
  def browser
    missing("chromium") unless Browser::PROGRAM
    @browser ||= BoardCase.browser.tap do |one|
      one.resize(1280, 900)
      one.complaints.clear
    end
  end

  # Starts a server; its link is good once.
  def serve(*arguments, app: APP, **options)
    @server = run_abaca(app, "--dashboard", *arguments, **options)
    @link = @server.wait_for(LINK)[1]
    @place = @link[%r{\Ahttp://[^/]+}]
    @server.wait_for(/Use Ctrl-C/)
    @server
  end

  # The processes that serve, by slot.
  def workers = Abaca::Page.of(@server.pid).select(&:pid).to_h { |slot| [slot.index, slot.pid] }

  # Writes into the page of the server, as a worker would.
  def write(*arguments, slot: 0) = PageWriter.write(@server.pid, slot, *arguments)

  # A process is stopped in the block.
  def stopped(pid)
    Process.kill(:STOP, pid)
    yield
  ensure
    Process.kill(:CONT, pid)
  end

  # Follows the link, to a screen.
  def look(screen = nil)
    browser.visit(@link)
    live
    return unless screen

    browser.press(screen.to_s)
    browser.wait_for("document.querySelector('#screens [aria-current=true] kbd').textContent === '#{screen}'")
  end

  def live = browser.wait_for("document.querySelector('#state').textContent === 'live'")

  # The texts of a column.
  def column(title)
    browser.value(<<~JS)
      (() => {
        const at = [...document.querySelectorAll("#head th")].findIndex((th) => th.textContent === #{title.to_json});
        return [...document.querySelectorAll("#rows tr")].map((tr) => tr.children[at].textContent);
      })()
    JS
  end

  # A browser's requests without a browser: its cookie.
  def follow(link = @link)
    answer = Net::HTTP.get_response(URI(link))
    assert_equal "303", answer.code, answer.body
    answer["set-cookie"][/\A[^;]+/]
  end

  # What the link has in its fragment, as the page sends it with the cookie.
  def secret(link = @link) = URI(link).fragment

  def request(verb, path, **fields)
    uri = URI(@place)
    Net::HTTP.start(uri.host, uri.port) { |http| http.send_request(verb, path, nil, fields.transform_keys(&:to_s)) }
  end

  # The first event of a stream, and how long it took.
  def first_event(path, **fields)
    began = now
    uri = URI(@place)
    socket = TCPSocket.new(uri.host, uri.port)
    socket.write("GET #{path} HTTP/1.1\r\nHost: #{uri.host}:#{uri.port}\r\n" \
                 "#{fields.map { |name, value| "#{name}: #{value}\r\n" }.join}\r\n")
    head = socket.gets("\r\n\r\n")
    assert_match(%r{\AHTTP/1\.1 200 .*^content-type: text/event-stream\r$}mi, head)
    [JSON.parse(socket.gets("\n\n")[/^data: (.*)$/, 1], symbolize_names: true), now - began]
  ensure
    socket&.close
  end

  def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)
end
