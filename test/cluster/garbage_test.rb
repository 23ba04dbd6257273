# frozen_string_literal: true

require "test_helper"
require "json"
require "open3"
require "abaca"
require "support/cluster_case"
require "support/spoiled_page"

# A fault in one worker writes anything into the page that all share, while they serve. All workers go on, the master
# leaves them alone, and whoever looks gets an answer.
class ClusterGarbageTest < Minitest::Test
  include ClusterCase

  # /spoil writes into the page again and again, from this worker. The pauses are such that not one heartbeat after the
  # other is lost.
  APP = <<~RUBY.freeze
    require #{File.expand_path('../support/spoiled_page', __dir__).inspect}
    def spoil
      page = SpoiledPage.new(Process.pid)
      %i[zeros ones any likely any likely].each_with_index do |way, i|
        page.spoil(way, i, slots: [0, 1, 2])
        sleep(i.even? ? 0.3 : 1.4)
      end
      page.close
      File.write("spoiled", "")
    end
    run(lambda do |env|
      Thread.new { spoil } if env["PATH_INFO"] == "/spoil"
      sleep 0.01 if env["PATH_INFO"] == "/"
      [200, { "content-type" => "text/plain" }, [Process.pid.to_s]]
    end)
  RUBY
  # A worker that seems to be silent for more than three seconds would be killed.
  CONFIG = <<~RUBY
    workers 2
    worker_check_interval 0.1
    worker_timeout 3
    max_fibers 3
    max_queue 1000
    max_body_memory 1000
    activate_control_app "unix://control.sock", no_token: true
  RUBY
  LOOKS = %w[stats workers requests fibers pools kept loops routes waits clients stalls events history metrics config
             dashboard loops?text requests?text routes?text waits?text clients?text events?text workers?text].freeze

  def setup
    super
    need_platform(:proc)
  end

  # What the control server answers; a target with ?text as a terminal has it.
  def look(name)
    path, text = name.split("?")
    socket = UNIXSocket.new(File.join(@directory, "control.sock"))
    socket.write("GET /#{path} HTTP/1.1\r\nHost: localhost\r\n#{"Accept: text/plain\r\n" if text}\r\n")
    socket.read
  ensure
    socket&.close
  end

  def check_looks
    LOOKS.each do |name|
      answer = look(name)
      assert_match(%r{\AHTTP/1.1 200 }, answer, name)
      JSON.parse(answer.split("\r\n\r\n", 2).last) if answer.include?("application/json")
    end
  end

  def top(command, *words)
    out, err, status = Open3.capture3(RbConfig.ruby, COMMAND, "top", *words, command.pid.to_s, chdir: @directory)
    [out, err, status.exitstatus]
  end

  def check_top(command)
    out, err, status = top(command, "-n", "2", "-d", "0.2", "--json")
    assert_equal [0, ""], [status, err]
    assert_equal [7, 7], out.lines.map { |line| JSON.parse(line)["screens"].size }
    out, err, status = top(command, "-n", "1", "-d", "0.2")
    assert_equal [0, ""], [status, err]
    assert_match(/^Fibers, loops$/, out)
  end

  %w[fiber thread].each do |mode|
    define_method(:"test_all_go_on_#{mode}") do
      command = run_cluster(APP, config: "#{CONFIG}mode :#{mode}\n")
      before = running(command).map(&:pid)
      load = Load.new(command.port, clients: 8)
      connect(command.port).call("GET /spoil HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n")
      check_looks
      check_top(command) if mode == "fiber"
      assert eventually { File.exist?(File.join(@directory, "spoiled")) }
      check_looks
      assert load.more?
      check_requests(command)
      assert_empty load.stop
      assert_equal before, running(command).map(&:pid), command.text
      seen = []
      assert eventually { (seen |= [Integer(ask(command))]).size == 2 }
      check_page(command)
      check_without_head(command)
      refute_match(/timed out|was killed|is full|failed/, command.text)
      assert_equal 0, finish(command)
    end
  end

  # They are seen again.
  def check_requests(command)
    page = Abaca::Page.of(command.pid)
    assert eventually { page.first(2).all? { |slot| slot.requests.any? { |one| one[:path] == "/" } } }
  ensure
    page&.close
  end

  # What a worker says of itself stands there again.
  def check_page(command)
    page = Abaca::Page.of(command.pid)
    expected = running(command).map { |worker| [:serving, worker.pid] }
    assert eventually { (expected - page.first(2).map { |slot| [slot.state, slot.pid] }).empty? }, command.text
    assert eventually { page.first(2).all? { |slot| slot.figures.values_at(:in_app, :waiting) == [0, 0] } }
  ensure
    page&.close
  end

  def check_without_head(command)
    page = SpoiledPage.new(command.pid)
    page.spoil_head(:any, 1)
    page.close
    2.times { ask(command) }
    check_looks
    out, err, status = top(command)
    assert_equal ["", 1], [out, status]
    assert_match(/\Aabaca: .*page/, err)
  end

  # The slot of a worker that has ended seems to be another process's: the master knows better.
  def test_the_next_worker_boots
    command = run_cluster(APP, config: CONFIG)
    first = booted(command).find { |worker| worker.index.zero? }
    File.open(Abaca::Page.place(command.pid), "r+b") do |file|
      Process.kill(:STOP, first.pid)
      assert eventually { File.read("/proc/#{first.pid}/stat").include?(") T ") }
      start, = file.pread(4, 12).unpack("L")
      file.pwrite([7, command.pid, 3, 2].pack("L4"), start) # claims, process, settled, state
      Process.kill(:KILL, first.pid)
    end
    wait_for_workers(command, 3)
    assert_equal 0, booted(command).last.index
    refute_match(/is alive/, command.text)
    assert_equal 0, finish(command)
  end
end
