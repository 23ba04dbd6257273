# frozen_string_literal: true

# also: rubies

require "test_helper"
require "json"
require "support/computing"
require "support/server_case"

# Where requests of a server wait, and where they keep their loops, by the line of the app.
class ProfileSamplerTest < Minitest::Test
  include ServerCase

  MODES = ["fiber", "thread", "routed", "hybrid", "guest:PlainScheduler"].freeze
  # The state of a sleep: Ruby 3.1 does not tell what a thread does, and so waits for anything.
  SLEEPS = %w[sleep io].freeze

  # Requests.
  MANY = 5_000

  def setup
    @page = Abaca::Page.create(slots: 1, rows: MANY)
    @slot = @page[0].claim
    super
  end

  def teardown
    super
  ensure
    @page.close
  end

  # Its line is looked for.
  def wait_here = sleep(0.6)
  WAIT_LINE = __LINE__ - 1

  def burn(seconds)
    ends = Process.clock_gettime(Process::CLOCK_MONOTONIC) + seconds
    nil while Process.clock_gettime(Process::CLOCK_MONOTONIC) < ends
  end
  BURN_LINES = ((__LINE__ - 3)..(__LINE__ - 2))

  # Objects made in the second half of a burn that makes none itself: the stacks of its samples are known by then.
  def objects_of_burning
    half = Process.clock_gettime(Process::CLOCK_THREAD_CPUTIME_ID) + 0.06
    ends = half + 0.06
    made = nil
    while (now = Process.clock_gettime(Process::CLOCK_THREAD_CPUTIME_ID)) < ends
      made ||= GC.stat(:total_allocated_objects) if now > half
    end
    GC.stat(:total_allocated_objects) - made
  end

  def app
    lambda do |env|
      env["sinatra.route"] = "GET /reports/:id" if env["PATH_INFO"].start_with?("/reports/")
      case env["PATH_INFO"]
      when %r{\A/reports/} then wait_here
      when "/burn" then burn(0.4)
      when "/steady" then next [200, { "content-type" => "text/plain" }, [objects_of_burning.to_s]]
      when %r{\A/spin/(\d+)} then deep(Regexp.last_match(1).to_i) { 60.times { Computing::STEP.call(1_000) } }
      end
      [200, { "content-type" => "text/plain" }, ["ok"]]
    end
  end

  def deep(depth, &block) = depth.zero? ? block.call : deep(depth - 1, &block)

  # What the watch would have of it.
  def profile(running, kind, seconds)
    sampler = Abaca::Profile::Sampler.new(running.server)
    found = JSON.parse(JSON.generate(sampler.take(kind, seconds)), symbolize_names: true)
    Abaca::Profile.new(kind:, seconds:).tap { |all| all.add(0, Process.pid, found) }
  end

  # While the block runs.
  def profile_during(running, kind)
    sampler = Abaca::Profile::Sampler.new(running.server)
    thread = Thread.new { sampler.take(kind, 60) }
    assert(eventually { thread.stop? })
    yield
    sampler.cancel
    found = JSON.parse(JSON.generate(thread.value), symbolize_names: true)
    Abaca::Profile.new(kind:, seconds: found[:seconds]).tap { |all| all.add(0, Process.pid, found) }
  end

  # Asks for each path on a connection of its own, at once.
  def ask_all(running, paths)
    clients = paths.map { |path| connect(running).tap { |client| client.write(request("GET", path)) } }
    clients.each { |client| assert_equal 200, client.read.status }
  end

  def serving(mode, **options)
    serve(app, lint: false, slot: @slot, **ServerCase.mode_options(mode), stall_after: 20, **options)
  end

  # One server after the other: each has the slot.
  def each_mode
    MODES.each do |mode|
      yield mode
      @clients.each(&:close).clear
      @running.each(&:stop)
    end
  end

  def test_the_line_of_the_app_is_at_the_top_for_a_wait
    each_mode do |mode|
      running = serving(mode)
      assert_equal 200, ask(running).status # it runs
      began = now
      found = profile_during(running, "wait") { ask_all(running, %w[/reports/1 /reports/2 /reports/3]) }
      took = now - began
      top = found.merged.first
      # Another scheduler's own frames are none of a gem's here.
      place = mode.start_with?("guest") ? top.frames.grep(/wait_here/).first : top.place
      assert_equal "#{__FILE__.delete_prefix("#{Dir.pwd}/")}:#{WAIT_LINE}", place[/\A[^ ]+/], mode
      assert_match(/wait_here'\z/, place, mode)
      assert_equal "GET /reports/:id", top.label, mode
      assert_includes SLEEPS, top.state, mode
      assert_includes 0.5..(3 * took), found.total, mode # three of them for 0.6 s
      assert_operator found.workers.first.looks, :>, 3, mode
    end
  end

  def test_the_line_of_the_app_is_at_the_top_for_a_stall
    each_mode do |mode|
      running = serving(mode)
      assert_equal 200, ask(running).status # it runs
      began = now
      found = profile_during(running, "stall") { assert_equal 200, ask(running, request("GET", "/burn")).status }
      took = now - began
      top = found.merged.first
      refute_nil top, mode
      assert_includes BURN_LINES, top.place[/:(\d+) in /, 1].to_i, "#{mode}: #{top.place}"
      assert_match(/burn'\z/, top.place, mode)
      assert_equal ["GET (no route)", "run"], [top.label, top.state], mode
      assert_operator found.total, :>, 0.1, mode
      assert_operator found.total, :<=, took, mode

      assert_empty profile(running, "stall", 0.1).stacks
    end
  end

  # A collection may run for each object, and take longer than it is to the next sample: then nothing else would run.
  def test_a_sample_of_a_known_stack_makes_no_object
    each_mode do |mode|
      running = serving(mode)
      assert_equal 200, ask(running).status # it runs
      # A heartbeat makes some, and one comes in each burn where the machine is slow.
      Thread.list.select { |thread| thread.name == "abaca heart" }.each { |thread| thread.kill.join }
      # Other threads make some now and then.
      made = Array.new(5) { Integer(ask(running, request("GET", "/steady")).body) }
      assert_operator made.min, :<, 3, mode
    end
  end

  # What was before a profile is in that of all so far alone.
  def test_all_stalls_so_far
    running = serving("fiber")
    began = now
    assert_equal 200, ask(running, request("GET", "/burn")).status
    took = now - began
    assert_empty profile(running, "stall", 0.1).stacks
    assert_includes 0.18..took, profile(running, "stall", 0).total
  end

  # The limit is 50 stacks in a process; the least give way, and their time goes to one row.
  def test_stalls_of_many_stacks_are_bounded
    running = serving("fiber", spare_loops: 0)
    assert_equal 200, ask(running).status
    found = profile_during(running, "stall") { (1..70).each { |depth| ask(running, request("GET", "/spin/#{depth}")) } }
    kept, rest = found.stacks.partition(&:label)
    assert_operator kept.size, :<=, 50
    assert_equal 1, rest.size
    assert_operator rest.first.seconds, :>, 0
    assert_equal [nil, [], nil], rest.first.to_h.values_at(:label, :frames, :place)
    assert_match(/\A\(other stacks\);\[run\] \d+$/, found.form("collapsed").text[/^\(other.*/])
  end

  # A look costs the same few milliseconds with any number of requests that wait, and all their time is charged.
  def test_very_many_waits
    need_platform(:memfd) # in a file there are fewer rows
    skip "too few descriptors" if Process.getrlimit(:NOFILE).first < 12_000
    gate = Queue.new
    running = serve(lint: false, slot: @slot, max_fibers: MANY + 10) { |_env| [200, {}, [gate.pop.to_s]] }
    sockets = Array.new(MANY) { TCPSocket.new("127.0.0.1", running.port).tap { |one| one.write(GET) } }
    assert(eventually { @page.states[:lock] == MANY })
    samples = Abaca::WaitSamples.new(running.server.sources.first)
    began = Waits.now
    times = Array.new(20) { cpu_of { samples.look } }
    passed = Waits.now - began
    assert_operator times.sort[times.size / 2], :<, 0.01
    rows = samples.to_a
    assert_equal [["GET (no route)", :lock]], rows.map { |row| row.first(2) }
    assert_in_delta passed * MANY, rows.sum { |row| row[3] }, passed * MANY * 0.2
    assert_operator rows.sum { |row| row[4] }, :>, 20 * 10
  ensure
    gate&.close
    sockets&.each(&:close)
  end

  def cpu_of
    began = Process.clock_gettime(Process::CLOCK_THREAD_CPUTIME_ID)
    yield
    Process.clock_gettime(Process::CLOCK_THREAD_CPUTIME_ID) - began
  end

  def test_a_server_without_a_slot_has_no_waits
    running = serve(app, lint: false)
    found = profile(running, "wait", 0.1)
    assert_empty found.stacks
    assert_equal 0, found.workers.first.looks
  end

  def test_it_ends_when_nobody_wants_it
    running = serving("fiber")
    %w[wait stall].each do |kind|
      sampler = Abaca::Profile::Sampler.new(running.server)
      thread = Thread.new { sampler.take(kind, 60) }
      assert(eventually { thread.stop? })
      sampler.cancel
      assert thread.join(5), kind
    end
  end

  def test_samples_of_what_is_none
    assert_raises(TypeError) { Abaca::WaitSamples.new(Object.new) }
    assert_raises(RuntimeError) { Abaca::WaitSamples.allocate.look }
    running = serving("fiber")
    running.stop
    refute Abaca::WaitSamples.new(running.server.sources.first).look
  end
end
