# frozen_string_literal: true

# bin/soak: a server under mixed load, with faults and cancellations, for an hour or as long as one says; a
# line each minute, and a verdict at the end. Status 0: flat, and all answers were right.
#
# Clients speak HTTP/1.1 and HTTP/2, half of them through TLS, some with a session of before or in small pieces; others
# break handshakes off. Before each line the server has a new certificate.
#
# With --stress it is ownership that is looked at, and not how much memory there is: the collector runs wherever it can,
# clients ask for as much as goes, and --sanitized tells what uses memory that is not its own any more; --races tells
# what threads share without a lock.

require "json"
require "optparse"
require "tmpdir"
require_relative "../cli/command"
require_relative "../support/certificates"
require_relative "../support/test_build"
require_relative "actions"
require_relative "settings"
require_relative "verdict"

module Soak
  FOLDER = __dir__
  # Seconds that an answer may take; under stress more than any request.
  PATIENCE = { false => 15, true => 50 }.freeze

  # Clients that take turns at random, at a steady rate in all.
  class Load
    attr_reader :counts, :errors

    # @param places [Actions::Places]
    # @param clients [Integer] at one time
    # @param rate [Integer] actions a second; 0: as many as go
    # @param patience [Numeric] seconds that any answer may take
    def initialize(places:, clients:, rate:, seed:, patience:)
      @counts = Hash.new(0)
      @errors = []
      @lock = Mutex.new
      @turn = ConditionVariable.new
      @running = true
      @paused = false
      @busy = 0
      @pause = rate.zero? ? 0 : clients / rate.to_f
      @threads = Array.new(clients) do |nth|
        random = Random.new(seed + nth)
        Thread.new { work(Actions.new(places:, random:, patience:), random.dup) }
      end
    end

    # Lets nobody begin anything while the block runs, which begins when all have ended what they did.
    def at_rest
      @lock.synchronize do
        @paused = true
        @turn.wait(@lock) until @busy.zero?
      end
      yield
    ensure
      @lock.synchronize { @paused = false }
      @turn.broadcast
    end

    def stop
      @lock.synchronize { @running = false }
      @turn.broadcast
      @threads.each(&:join)
    end

    private

    def work(actions, random)
      while begin_turn
        begin
          name = actions.take
          @lock.synchronize { @counts[name] += 1 }
        rescue Actions::Wrong => e
          @lock.synchronize { @errors << e.message }
        ensure
          end_turn
        end
        sleep(@pause * random.rand(0.5..1.5)) if @pause.positive?
      end
    end

    def begin_turn
      @lock.synchronize do
        @turn.wait(@lock) while @paused && @running
        @busy += 1 if @running
        @running
      end
    end

    def end_turn
      @lock.synchronize { @busy -= 1 }
      @turn.broadcast
    end
  end

  # The server of one mode, its load and what is seen of them.
  class Run
    PLACES = ["tcp://127.0.0.1:0?h2c=true", "ssl://127.0.0.1:0?cert=a.pem&key=a.key"].freeze
    SECURE = %r{Listening on (?:https|ssl)://\S*:(\d+)$}
    SETTLE = 3 # seconds that connections and fibers of the last requests may take to go
    LATE = 20 # seconds after which nothing more of them is to be expected
    CRASH_LINES = 40
    COLUMNS = { "seconds" => 7, "actions" => 9, "wrong" => 6, "RSS MB" => 8, "fds" => 5, "threads" => 8, "fibers" => 7,
                "slots" => 8 }.freeze

    # @param mode [Symbol]
    # @param seconds [Integer] how long
    # @param every [Numeric] seconds between two samples
    # @param app [Hash{Symbol => Object}] :leak, whether the app keeps something of each request, and :heap, how many
    #   objects it has
    # @param under [Hash{Symbol => Object}] :stress, whether the collector runs wherever it can, and :build, a
    #   build (TestBuild) on which the server runs, or nil
    # @param load [Hash] for Load
    def initialize(mode:, seconds:, every:, app:, under:, **load)
      @mode = mode
      @stress, @build = under.values_at(:stress, :build)
      @seconds = seconds
      @every = every
      @app = app
      @load = load
      @samples = []
    end

    # @return [Boolean] whether the verdict is good
    def run
      Dir.mktmpdir("abaca-soak") do |dir|
        start(dir)
        puts "#{@mode}: #{@seconds} s, #{@load.map { |pair| pair.join(" ") }.join(", ")}; process #{@server.pid}"
        watch
        @clients.stop
        check_ensure unless @death
      rescue Interrupt
        @death = "stopped by hand"
      ensure
        finish
      end
      say_verdict
    end

    private

    def start(dir)
      settings = File.join(dir, "settings.rb")
      File.write(settings, Settings.text(@mode, stress: @stress))
      @certificates = Certificates.new(dir)
      @pair = @certificates.make("a", names: ["a.test"])
      binds = PLACES.flat_map { |place| ["-b", place] }
      words = Command.words(["-C", settings, *binds, File.join(FOLDER, "config.ru")])
      @server = Command::Running.new(words, dir:, env: environment)
      @server.port
      places = places_of(@server.output)
      @reader = Thread.new { @server.read_on }
      @clients = Load.new(places:, patience: PATIENCE.fetch(@stress), **@load)
    end

    def places_of(output)
      Actions::Places.new(@server.port, Integer(output[SECURE, 1]), @certificates.authority.cert)
    end

    # The server finds another certificate, while others use the one before.
    def renew
      @pair = @certificates.renew(@pair)
      @server.signal(:HUP)
    end

    def environment
      own = { "SOAK_LEAK" => ("1" if @app[:leak]), "SOAK_STRESS" => ("1" if @stress),
              "SOAK_HEAP" => @app[:heap].to_s }
      @build ? TestBuild.environment(@build).merge(own) : own
    end

    def watch
      began = now
      heading
      (1..).each do |nth|
        break if nth * @every > @seconds || !alive?

        sleep([(nth * @every) - (now - began), 0].max)
        renew
        sample = @clients.at_rest { sample(now - began) } or break
        report(@samples.push(sample).last)
      end
    end

    def alive?
      return true unless status.match?(/^State:\s+[ZX]/)

      @death = "the server has ended: #{last_words}"
      false
    end

    # How a crash begins, and where the whole of it is; without one, the last lines of the log.
    def last_words
      crash = @server.output[/^.*(?:#{TestBuild::REPORT}).*(?:\n.*){0,#{CRASH_LINES}}/]
      return @server.output.lines.last(5).join unless crash

      "#{crash}\nThe whole log is in #{keep_log}"
    end

    def keep_log
      File.expand_path("../../tmp/soak-#{@mode}-#{@server.pid}.log", __dir__).tap do |path|
        File.write(path, @server.output)
      end
    end

    # nil when the server has none to give.
    def sample(seconds)
      sleep [SETTLE, @every / 4].min
      inside = figures or return
      resident, threads = %w[VmRSS Threads].map { |field| Integer(status[/^#{field}:\s+(\d+)/, 1]) }
      Sample.new(seconds:, resident: resident * 1024, threads:, fibers: inside["fibers"], slots: inside["slots"],
                 descriptors: Dir.children("/proc/#{@server.pid}/fd").size)
    end

    def status = File.read("/proc/#{@server.pid}/status")

    # nil, and the server is as good as dead, when it does not answer.
    def figures
      JSON.parse(@server.get("/figures").body)
    rescue StandardError => e
      @death ||= "the server gives no figures: #{e.message} (#{e.class})" if alive?
      nil
    end

    # Every request that began to wait has run its `ensure`, whatever became of it.
    def check_ensure
      deadline = now + LATE
      entered = left = nil
      loop do
        entered, left = figures&.fetch("ensured")&.values_at("entered", "left")
        break if @death || entered == left || now > deadline

        sleep 0.1
      end
      @death ||= "#{entered - left} of #{entered} ensure blocks have not run" if entered != left
    end

    def heading = line(*COLUMNS.keys)

    def line(*cells)
      puts cells.zip(COLUMNS.values).map { |cell, width| cell.to_s.rjust(width) }.join
      $stdout.flush
    end

    def report(sample)
      line(sample.seconds.round, @clients.counts.values.sum, @clients.errors.size, (sample.resident / 1e6).round(1),
           sample.descriptors, sample.threads, sample.fibers, sample.slots)
    end

    def finish
      @clients&.stop
      return unless @server

      @server.signal(:TERM)
      status = @server.wait(within: 60)
      @death ||= "the server ended with #{status}: #{last_words}" unless status.success?
    rescue RuntimeError => e
      @death ||= e.message
    ensure
      @server&.destroy
      @reader&.join
    end

    def say_verdict
      tolerance = @stress ? Verdict::STRESSED : Verdict::TOLERANCE
      errors = @clients.errors.size - given_up
      verdict = Verdict.new(samples: @samples, errors:, death: @death, tolerance:)
      puts "actions: #{@clients.counts.sort.map { |name, count| "#{name} #{count}" }.join(", ")}"
      @clients.errors.tally.max_by(5, &:last).each { |text, count| puts "wrong, #{count} times: #{text}" }
      puts "given up in a window of collections: #{given_up}" if given_up.positive?
      puts "the server's log is in #{keep_log}" if errors.positive?
      verdict.complaints.each { |complaint| puts complaint }
      puts "#{@mode}: #{verdict.passed? ? "flat" : "NOT GOOD"}"
      verdict.passed?
    end

    # A request that goes on after its deadline has five seconds to end. A window of collections may be longer, and
    # then it is given up although it did nothing: the log says so.
    def given_up
      return 0 unless @stress

      said = @server.output.scan(%r{a request is given up .*/stubborn}).size
      [said, @clients.errors.count { |text| text.start_with?("stubborn: status 504") }].min
    end

    def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)
  end
end

MODES = Soak::Settings::MODES.keys.freeze
options = { seconds: 3600, every: nil, clients: 16, rate: 200, seed: 1, app: { leak: false, heap: 0 },
            under: { stress: false, build: nil } }
modes = %i[fiber]
OptionParser.new do |parser|
  parser.banner = "usage: bin/soak [options]"
  parser.on("--seconds S", Integer, "how long (3600)") { |n| options[:seconds] = n }
  parser.on("--every S", Float, "seconds between two lines (60, or a tenth of a short run)") { |n| options[:every] = n }
  parser.on("--mode A,B", Array, "#{MODES.join(", ")}: one after another (fiber)") do |names|
    modes = names.map(&:to_sym)
  end
  parser.on("--clients N", Integer, "at one time (16)") { |n| options[:clients] = n }
  parser.on("--rate N", Integer, "actions a second in all, 0: as many as go (200)") { |n| options[:rate] = n }
  parser.on("--seed N", Integer, "of the clients' choices (1)") { |n| options[:seed] = n }
  parser.on("--stress", "the collector runs wherever it can; who is left over counts, and not memory") do
    options[:rate] = 0
    options[:under][:stress] = true
  end
  parser.on("--sanitized", "on the build of rake compile:sanitized") { options[:under][:build] = "sanitized" }
  parser.on("--races", "on that of rake compile:races") { options[:under][:build] = "races" }
  parser.on("--heap N", Integer, "objects that the app has, for collections as long as an app's (0)") do |n|
    options[:app][:heap] = n
  end
  parser.on("--leak", "the app keeps something of each request, to see that it is noticed") do
    options[:app][:leak] = true
  end
end.parse!
options[:every] ||= [options[:seconds] / 10.0, 60].min
abort "bin/soak: no such mode: #{(modes - MODES).join(", ")}" if (modes - MODES).any?

$LOAD_PATH.unshift(TestBuild.folder(options[:under][:build])) if options[:under][:build]
good = modes.map { |mode| Soak::Run.new(mode:, **options).run }
exit(good.all?)
