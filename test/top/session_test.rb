# frozen_string_literal: true

require "test_helper"
require "open3"
require "abaca"
require "cli/command"
require "support/programs"
require "support/tmux"

# `abaca top` in a real terminal, on pages that the tests make.
class TopSessionTest < Minitest::Test
  include Programs

  ROOT = File.expand_path("../..", __dir__)
  # Two workers with thirty requests each, and one that holds its loop.
  PAGE = <<~'RUBY'
    row = lambda do |id, **given|
      { id:, age: 100.0 - id, since: 0.2, state: :db, mode: :fiber, phase: :called, method: "GET", path: "/items/#{id}",
        route: "/items/:id", peer: "10.0.0.#{id}", waits_for: "10.0.9.9:5432", status: nil, sums: { db: 1.0 },
        waits: [[0.1, 0.4, :pool, nil]], **given }
    end
    slots = Array.new(2) do |i|
      FakePage::Slot.new(index: i, pid: i.zero? ? Process.pid : Process.ppid, rows: Array.new(30, &row))
    end
    slots[1].loops = [{ index: 0, state: :stalled, request: 3, since: 0.4, ticks: 4, tid: 77, kind: :main }]
  RUBY
  HOSTILE = ["\e[31m\e]0;owned\a", "\n\n\r", "x" * 8192,
             "\xff\xfe\xc3(", "e\u0301\u0301", "日本語" * 300, "\u202egnp", "\t"].freeze
  # Columns and lines of the terminal.
  SIZES = [[80, 24], [200, 50], [40, 10], [20, 5], [1, 1]].freeze

  def setup
    need_program("tmux")
    @dir = Dir.mktmpdir("stage")
    page
  end

  def teardown
    @terminal&.close
    FileUtils.remove_entry(@dir) if @dir
  end

  # What the server's page has from now on.
  def page(more = "", before: PAGE)
    File.write("#{@dir}/new", "#{before}page = FakePage.new(*slots)\n#{more}\npage\n")
    File.rename("#{@dir}/new", "#{@dir}/page.rb")
  end

  def start(*flags, env: {}, **options)
    words = [*Command.ruby, "-I#{ROOT}/lib", "#{ROOT}/test/support/stage.rb", "-d", "0.2", *flags]
    @terminal = Tmux.new(*words, env: { "STAGE" => @dir, "NO_COLOR" => "", **env }, **options)
    @terminal.wait_for(/^.*q quit|ended with|\A\S/)
    @terminal
  end

  def wait_for(...) = @terminal.wait_for(...)
  def press(...) = @terminal.press(...)

  # The rows below the titles.
  def rows = @terminal.screen.drop_while { |line| !line.match?(/^ +AGE/) }.drop(1).grep(/^[ >!]/)

  def test_all_screens
    start
    text = wait_for(/^ +W +PID STATE/)
    assert_match(%r{^abaca .*  2/2 workers }, text)
    assert_match(%r{^STALL  worker 1  400ms  GET /items/3$}, text)
    { "2" => /AGE\* .* PATH/, "3" => /ROUTE .* TIME%\*/, "4" => /KIND .* NOW\*/, "5" => /LOOP KIND/, "6" => /ADDRESS/,
      "7" => /TIME\* .* WHAT/, "1" => /PID STATE/ }.each do |key, title|
      press(key)
      text = wait_for(title)
      assert_match(/\[#{key} /, text)
      assert_equal [24, 80], [@terminal.screen.size, [80, *@terminal.screen.map(&:size)].max]
    end
    press("Tab")
    wait_for(/\[2 Requests\]/)
  end

  def test_a_request_in_detail
    start("--screen", "requests")
    wait_for(%r{^>100s .*/items/0 })
    press("Down", "Down", "Enter")
    text = wait_for(%r{^GET /items/1$})
    assert_match(/ 100ms #+\.* +400ms  pool$/, text)
    press("Escape")
    wait_for(/^> 99s/)
    press("End")
    wait_for(/^> 71s/)
    press("Home")
    wait_for(/^>100s/)
  end

  def test_filter
    start("--screen", "requests")
    press("/")
    @terminal.type("ITEMS/17")
    wait_for(%r{^/ITEMS/17_})
    press("Enter")
    text = wait_for(%r{^filter: ITEMS/17})
    assert_match(/   2 rows   /, text)
    assert_equal ["/items/17"], rows.map { |line| line[%r{/items/\d+}] }.uniq
    press("Escape")
    wait_for(/^60 rows/)
    press("/")
    @terminal.type("x")
    press("Escape")
    wait_for(/^60 rows/)
  end

  def test_order_and_workers
    start("--screen", "requests")
    press("r")
    wait_for(/^> 71s .*\n  71s/)
    press("r", ">")
    wait_for(/ W\* /)
    press("<", "<", "<")
    wait_for(/PATH\*/)
    press("w")
    wait_for(/w0 0.2s\n/)
    assert_equal ["0"], rows.map { |line| line[1..].split[1] }.uniq
    press("w", "w")
    wait_for(/Events +0.2s/)
  end

  def test_frozen
    start("--screen", "requests")
    wait_for(/60 rows/)
    press("Space")
    wait_for(/frozen/)
    page("slots.each { |slot| slot.rows = [] }")
    sleep 1
    assert_match(/60 rows/, @terminal.screen.last)
    press("Space")
    wait_for(/^0 rows/)
  end

  def test_pace
    start
    press("-", "-", "-")
    wait_for(/ 2s$/)
    press("+")
    wait_for(/ 1s$/)
    8.times { press("-") }
    wait_for(/ 10s$/)
    9.times { press("+") }
    wait_for(/ 0.2s$/)
  end

  # Columns that have no room come with the arrow, at the cost of others.
  def test_other_columns
    start
    refute_match(/RESTARTS/, wait_for(/PID STATE/))
    9.times { press("Right") }
    assert_match(/^ +W +PID STATE/, wait_for(/RESTARTS/))
    9.times { press("Left") }
    wait_for(/  UP /)
  end

  def test_without_a_control_server
    start("--screen", "requests")
    press("?")
    text = wait_for(/^keys/)
    refute_match(/^[pcd] /, text)
    press("?")
    %w[p d c].each do |key|
      wait_for(/q quit/)
      press(key)
      wait_for(/^no control server: .*control\.md\)$/)
      sleep 5.2 if key != "c"
    end
  end

  def test_resize
    start("--screen", "requests")
    SIZES.each do |columns, lines|
      @terminal.resize(columns, lines)
      assert(eventually do
        @terminal.screen.size == lines && @terminal.screen.last.match?(/\A(60|6)|\A\S\z/)
      end, "#{columns}x#{lines}")
      assert_operator @terminal.screen.map(&:size).max, :<=, columns
    end
    @terminal.resize(200, 50)
    text = wait_for(/CLIENT/)
    assert_match(/MODE +PHASE/, text)
    assert_operator rows.size, :>, 35
  end

  def test_hostile_clients
    page("paths = #{HOSTILE.inspect}\n" \
         "slots.each { |slot| slot.rows.each_with_index { |row, i| row[:path] = paths[i % 8] } }")
    start("--screen", "requests", columns: 120)
    wait_for(/60 rows/)
    8.times do
      text = wait_for(/^>/)
      assert_equal 24, @terminal.screen.size
      assert_match(/\Aabaca/, text)
      assert_match(/^60 rows   \? keys   q quit\z/, text)
      refute_match(/owned$/, text)
      press("Down", "Enter")
      wait_for(/Esc back\z/)
      press("Escape")
      wait_for(/60 rows/)
    end
    assert_match(/日本語/, @terminal.screen.join)
    assert_match(/\\x1B\[31m/, @terminal.screen.join)
  end

  def test_many_paths_and_routes
    page("slots[0].rows = Array.new(5_000) { |i| row.(i, path: \"/\#{i}\", peer: \"10.\#{i / 256}.\#{i % 256}.1\") }")
    start("--screen", "requests")
    wait_for(/^5,?030 rows/)
  end

  def test_without_colours_and_utf8
    start("--screen", "requests", env: { "NO_COLOR" => "1" }, utf8: false)
    page('slots[0].rows = [row.(1, path: "/日本")]')
    assert_match(/\\u\{65E5\}\\u\{672C\}/, wait_for(/u\{65E5\}/))
    refute_match(/\e\[[\d;]*3[0-7]/, @terminal.colors)
    @terminal.close
    @terminal = nil
    start
    wait_for(/^STALL/)
    assert_match(/\e\[31mSTALL/, @terminal.colors)
  end

  def test_a_dumb_terminal_gets_one_page
    start(term: "dumb")
    text = wait_for(/ended with 0/)
    assert_match(/^STALL/, text.lines.join) if text.include?("abaca")
    refute_predicate @terminal, :second?
  end

  # --- the terminal is given back ---

  def assert_given_back(status)
    wait_for(/^ended with #{status}$/)
    refute_predicate @terminal, :second?
    assert_match(/^ ?icanon/, wait_for(/icanon/))
  end

  def test_quit
    start
    assert_predicate @terminal, :second?
    press("q")
    assert_given_back(0)
  end

  def test_control_c
    start
    press("C-c")
    assert_given_back(0)
  end

  # Its process is the one below the shell's.
  def top = File.read("/proc/#{@terminal.pid}/task/#{@terminal.pid}/children").to_i

  def test_signals
    { "TERM" => 143, "HUP" => 129, "INT" => 130, "QUIT" => 131 }.each do |name, status|
      start
      Process.kill(name, top)
      assert_given_back(status)
      @terminal.close
      @terminal = nil
    end
  end

  def test_an_error_is_read_after_the_screen
    start
    page("raise 'broken page'")
    wait_for(/ended with 1/)
    assert_match(/broken page/, @terminal.history)
    assert_given_back(1)
  end

  def test_stopped_and_continued
    start
    press("C-z")
    wait_for(/^stopped$/)
    refute_predicate @terminal, :second?
    press("Enter")
    wait_for(/q quit/)
    assert_predicate @terminal, :second?
    press("q")
    assert_given_back(0)
  end

  # Nobody is told of a STOP; after it the screen is whole again.
  def test_stopped_by_force
    start
    pid = top
    Process.kill(:STOP, pid)
    assert(eventually { File.read("/proc/#{pid}/stat").rpartition(") ").last.start_with?("T") })
    press("C-j") # the terminal is still raw
    wait_for(/q quit$/)
    press("2")
    wait_for(/\[2 Requests\]/)
    press("q")
    assert_given_back(0)
  end

  def test_a_number_of_looks
    start("-n", "3")
    assert_given_back(0)
  end
end
