# frozen_string_literal: true

require "fileutils"
require "io/nonblock"
require "io/wait"
require "json"
require "tmpdir"

# A browser for tests: headless Chromium, driven by its own protocol over a pair of pipes (bin/setup installs it).
#
#   browser = Browser.new
#   browser.visit("http://127.0.0.1:9293/dashboard")
#   browser.wait_for("document.querySelectorAll('#rows tr').length === 3")
#   browser.value("document.title")
class Browser
  PROGRAM = %w[chromium chromium-browser google-chrome].map do |name|
    ENV["PATH"].split(":").map { |folder| File.join(folder, name) }.find { |path| File.executable?(path) }
  end.compact.first
  FLAGS = %w[--headless=new --remote-debugging-pipe --no-first-run --disable-gpu --disable-dev-shm-usage
             --disable-background-networking --disable-component-update --disable-extensions --disable-sync
             --hide-scrollbars --mute-audio --no-default-browser-check].freeze
  SECONDS = 60

  # What a page has thrown, logged or was refused by its policy.
  attr_reader :complaints

  def initialize(width: 1280, height: 900)
    @folder = Dir.mktmpdir("abaca-browser")
    @answers = {}
    @last = 0
    @complaints = []
    start
    target = command("Target.createTarget", { url: "about:blank" }, session: nil)["targetId"]
    @session = command("Target.attachToTarget", { targetId: target, flatten: true }, session: nil)["sessionId"]
    %w[Page Runtime Log Network].each { |domain| command("#{domain}.enable") }
    resize(width, height)
  end

  def resize(width, height, scale: 1)
    command("Emulation.setDeviceMetricsOverride", { width:, height:, deviceScaleFactor: scale, mobile: false })
  end

  # :light or :dark
  def scheme=(name)
    command("Emulation.setEmulatedMedia", { features: [{ name: "prefers-color-scheme", value: name.to_s }] })
  end

  # A tab behind others, or the one in front.
  def hidden=(hidden)
    value("Object.defineProperty(document, 'hidden', { configurable: true, get: () => #{hidden} });" \
          "document.dispatchEvent(new Event('visibilitychange'))")
  end

  def visit(url)
    command("Page.navigate", { url: })
    wait_for("document.readyState === 'complete' && (location.href !== 'about:blank') === #{url != 'about:blank'}")
  end

  # The value of an expression, which may be a promise.
  def value(expression)
    result = command("Runtime.evaluate", { expression:, returnByValue: true, awaitPromise: true })
    if (problem = result["exceptionDetails"])
      raise "#{expression}: #{problem.dig('exception', 'description') || problem['text']}"
    end

    result.dig("result", "value")
  end

  # Runs the block in the tab that the page has opened at this address, and closes it.
  def in_tab(url)
    opener = @session
    deadline = now + SECONDS
    until (tab = tabs.find { |one| one["url"] == url })
      raise "no tab #{url} in #{tabs}" if now > deadline

      sleep 0.05
    end
    @session = command("Target.attachToTarget", { targetId: tab["targetId"], flatten: true }, session: nil)["sessionId"]
    %w[Page Runtime Log].each { |domain| command("#{domain}.enable") }
    # The target has its address before the empty page it starts with has gone.
    wait_for("document.readyState === 'complete' && location.href === #{url.inspect}")
    yield
  ensure
    @session = opener
    command("Target.closeTarget", { targetId: tab["targetId"] }, session: nil) if tab
  end

  # Until the expression is true; returns its value. Raises with what the page says when that does not come.
  def wait_for(expression, within: SECONDS)
    deadline = now + within
    until (found = value(expression))
      raise "not #{expression} within #{within} s in:\n#{text}\n#{complaints}" if now > deadline

      sleep 0.05
    end
    found
  end

  # What somebody reads.
  def text = value("document.body?.innerText ?? document.documentElement.textContent")

  def press(key)
    text = key.size == 1 ? key : nil
    codes = { "Enter" => 13, "Escape" => 27, "Tab" => 9 }
    rest = { key:, text: text || (key == "Enter" ? "\r" : nil), windowsVirtualKeyCode: codes[key] }.compact
    %w[keyDown keyUp].each { |type| command("Input.dispatchKeyEvent", { type:, **rest }) }
  end

  def click(selector) = value("document.querySelector(#{selector.to_json}).click()")

  # A PNG of what is visible, or of the whole page.
  def picture(whole: false)
    command("Page.captureScreenshot", { format: "png", captureBeyondViewport: whole })["data"].unpack1("m")
  end

  def close
    return unless @pid

    command("Browser.close", {}, session: nil)
    wait
  rescue IOError, SystemCallError
    wait
  ensure
    [@in, @out].each { |io| io.close unless io.closed? }
    FileUtils.rm_rf(@folder)
  end

  def command(name, parameters = {}, session: @session)
    id = @last += 1
    message = { id:, method: name, params: parameters, sessionId: session }.compact
    @in.write("#{JSON.generate(message)}\0")
    @in.flush
    receive until @answers.key?(id)
    answer = @answers.delete(id)
    raise "#{name}: #{answer['error']}" if answer["error"]

    answer["result"]
  end

  private

  def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)

  def tabs = command("Target.getTargets", {}, session: nil)["targetInfos"].select { |one| one["type"] == "page" }

  # Its commands come on descriptor 3, and its answers go to 4.
  def start
    commands, @in = IO.pipe
    @out, answers = IO.pipe
    # as Ruby makes them, the browser would take "not yet" for the end
    [commands, answers].each do |io|
      io.nonblock = false
    end
    root = Process.uid.zero? ? ["--no-sandbox"] : []
    files = { 3 => commands, 4 => answers, %i[out err] => File.join(@folder, "log") }
    @pid = Process.spawn(PROGRAM, *FLAGS, *root, "--user-data-dir=#{@folder}", **files, pgroup: true)
    [commands, answers].each(&:close)
    [@in, @out].each(&:binmode)
  end

  def receive
    unless @out.wait_readable(SECONDS)
      raise "the browser says nothing: #{File.read(File.join(@folder,
                                                             'log'))[-2000..]}"
    end

    line = @out.gets("\0") or raise(IOError, "the browser has ended: #{File.read(File.join(@folder, 'log'))[0, 2_000]}")
    message = JSON.parse(line.delete_suffix("\0"))
    message["id"] ? @answers[message["id"]] = message : hear(message)
  end

  def hear(message)
    case message["method"]
    when "Runtime.exceptionThrown" then @complaints << message.dig("params", "exceptionDetails").to_s
    when "Runtime.consoleAPICalled" then @complaints << message.dig("params", "args").to_s
    when "Log.entryAdded" then @complaints << message.dig("params", "entry").values_at("source", "text").join(": ")
    end
  end

  # Its own processes are a group.
  def wait
    deadline = now + 5
    until Process.wait(@pid, Process::WNOHANG)
      return end_group if now > deadline

      sleep 0.02
    end
    @pid = nil
  end

  def end_group
    Process.kill(:KILL, -@pid)
    Process.wait(@pid)
    @pid = nil
  end
end
