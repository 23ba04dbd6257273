# frozen_string_literal: true

# Makes the pictures in docs/ (bin/pictures).
require "fileutils"
require "json"
require "net/http"
require "open3"
require "rbconfig"
require "securerandom"
require "socket"
require "tmpdir"
require "abaca"
require "support/browser"
require "support/tmux"
require_relative "terminal_svg"

# A server that is used, and those who look at it.
class Pictures
  ROOT = File.expand_path("../..", __dir__)
  DOCS = "#{ROOT}/docs".freeze
  # How many ask at once, and what: the first ones most.
  CLIENTS = 24
  PATHS = { "/items/%d" => 12, "/orders" => 5, "/search" => 5, "/reports/%d" => 1, "/export" => 1, "/broken" => 1 }
          .flat_map { |path, share| [path] * share }.freeze
  # Seconds before the pictures: the charts shall have something to show.
  BEFORE = Integer(ENV.fetch("BEFORE", "60"))
  SCREENS = %w[workers requests routes waits fibers clients events].freeze
  # Of the terminal.
  COLUMNS = 100
  LINES = 22

  def run
    @folder = Dir.mktmpdir("pictures")
    FileUtils.mkdir_p("#{DOCS}/top")
    start_database
    start_server
    start_clients
    sleep(BEFORE)
    take_top
    take_dashboard
  ensure
    @over = true
    Process.kill(:TERM, @pid) && Process.wait(@pid) if @pid
    FileUtils.rm_rf(@folder)
  end

  private

  # It answers each line after so many milliseconds.
  def start_database
    @database = TCPServer.new("127.0.0.1", 0)
    Thread.new { loop { Thread.new(@database.accept) { |socket| answer(socket) } } }
  end

  def answer(socket)
    sleep(socket.gets.to_f / 1000)
    socket.puts("row")
  rescue SystemCallError, IOError
    nil
  ensure
    socket.close
  end

  def start_server
    %w[shop.ru shop.rb].each { |name| FileUtils.cp("#{__dir__}/#{name}", @folder) }
    env = { "DATABASE" => @database.addr[1].to_s, "TOKEN" => SecureRandom.hex(16) }
    words = [RbConfig.ruby, "-I#{ROOT}/lib", "#{ROOT}/exe/abaca", "-C", "shop.rb", "-e", "production", "shop.ru"]
    @pid = Process.spawn(env, *words, chdir: @folder, %i[out err] => "#{@folder}/log")
    @port = Integer(wait_for(/Listening on \S+:(\d+)/))
    @link = wait_for(/Dashboard: (\S+)/)
  end

  def wait_for(pattern)
    400.times do
      found = File.read("#{@folder}/log")[pattern, 1] and return found
      sleep 0.05
    end
    raise File.read("#{@folder}/log")
  end

  def start_clients
    CLIENTS.times { |i| Thread.new { ask("127.0.0.#{1 + (i % 5)}") until @over } }
  end

  # Clients have several addresses, and the first ones ask most.
  def ask(address)
    Net::HTTP.start("127.0.0.1", @port, local_host: address, read_timeout: 30) do |http|
      20.times do
        http.get(format(PATHS.sample, rand(1..99)))
        sleep(rand * address[-1].to_i / 12)
      end
    end
  rescue SystemCallError, IOError, Net::OpenTimeout, Net::ReadTimeout
    sleep 0.2
  end

  def take_top
    words = [RbConfig.ruby, "-I#{ROOT}/lib", "#{ROOT}/exe/abaca", "top", @pid.to_s]
    terminal = Tmux.new(*words, columns: COLUMNS, lines: LINES)
    terminal.wait_for(/q quit$/)
    sleep 3
    SCREENS.each.with_index(1) do |name, number|
      terminal.press(number.to_s)
      terminal.wait_for(/\[#{number} /)
      sleep 1.2
      picture = TerminalSvg.new(terminal.colors, columns: COLUMNS, title: "abaca top: #{name}")
      File.write("#{DOCS}/top/#{number}-#{name}.svg", picture.to_s)
    end
  ensure
    terminal&.close
  end

  def take_dashboard
    browser = Browser.new(width: 1100, height: 820)
    browser.visit(@link)
    browser.wait_for("document.querySelector('#state').textContent === 'live'")
    browser.press("2")
    sleep 3
    File.binwrite("#{DOCS}/dashboard.png", browser.picture)
    more(browser, ENV["EXTRA"]) if ENV["EXTRA"]
  ensure
    browser&.close
  end

  # To be looked at, and not kept, in the folder EXTRA: a phone, the dark colours, each screen.
  def more(browser, folder)
    browser.resize(390, 844, scale: 2)
    sleep 1.2
    File.binwrite("#{folder}/phone.png", browser.picture(whole: true))
    browser.resize(1280, 1000)
    browser.scheme = :dark
    8.times do |i|
      browser.press((i + 1).to_s)
      sleep 1.5
      File.binwrite("#{folder}/screen-#{i + 1}.png", browser.picture)
    end
  end
end

Pictures.new.run
