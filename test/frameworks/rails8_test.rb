# frozen_string_literal: true

# also: rubies

require "test_helper"
require "json"
require "securerandom"
require "support/cable"
require "support/framework_case"
require "support/generated_rails"
require "support/mounted_web"

# Rails 8 as generated, with Abaca in the bundle in place of Puma: what its parts do while many requests ask for them.
module Rails8Tests
  include FrameworkCase
  include MountedWeb

  # Requests at once.
  CROWD = 30
  STREAMS = 10

  def self.included(test)
    test.extend(FrameworkCase::ClassMethods, ClassMethods)
  end

  # A Rails app in production loads all that it has.
  class Booting < Command::Running
    SECONDS = 150

    def port
      wait_for(/Use Ctrl-C/, within: SECONDS)
      super
    end
  end

  module ClassMethods
    # Why the server does not run; nil where it does.
    attr_reader :trouble

    # Makes what the tests need first: this takes longer than one test may.
    def run(*)
      begin
        server unless missing
      rescue StandardError => e
        @trouble = e
      end
      super
    end

    # Why these tests are skipped here; nil where they run.
    def missing = GeneratedRails.missing

    # Starts a command in the app's folder.
    def serve(*words, env:) = Booting.new(words, dir: GeneratedRails.dir, env:)
  end

  def setup
    skip self.class.missing if self.class.missing
    raise self.class.trouble if self.class.trouble

    super
  end

  def teardown = (super if @clients)

  # What the block returns for each of these numbers, on a thread each.
  def crowd(size = CROWD, &block) = Array.new(size) { |nth| Thread.new(nth, &block) }.map(&:value)

  def test_requests_that_meet_are_apart
    said = crowd { |nth| get("/visitor", "X-Visitor": "Ada#{nth}").body }
    assert_equal Array.new(CROWD) { |nth| "Ada#{nth} Ada#{nth}" }, said
  end

  def test_queries_beside_each_other
    said = crowd { |nth| get("/loads", "X-Visitor": "Ada#{nth}").body }
    assert_equal Array.new(CROWD) { |nth| "0 Integer Ada#{nth}" }, said
  end

  def test_cache
    key = SecureRandom.hex(4)
    assert_equal %w[0 1 2].to_h { |nth| ["made for #{key}#{nth}", CROWD / 5] },
                 crowd(CROWD / 5 * 3) { |nth| get("/cache/#{key}#{nth % 3}").body }.tally
    assert_equal "1", get("/cache/#{key}/count").body # the first one makes it, which only one can
    assert_equal (2..CROWD).to_a, crowd(CROWD - 1) { get("/cache/#{key}/count").body.to_i }.sort
  end

  def test_forms_and_uploads
    crowd(10) do |nth|
      scan = Random.new(nth).bytes(300_000)
      Net::HTTP.start("127.0.0.1", server.port, read_timeout: FrameworkCase::SECONDS) do |http|
        page = http.get("/notes/new")
        cookie = page["set-cookie"][/[^;]+/]
        form = { "authenticity_token" => page.body[/name="authenticity_token" value="([^"]+)"/, 1],
                 "note[title]" => "note #{nth}" }
        saved = http.request(form_with(scan, form, "Cookie" => cookie, "X-Visitor" => "Ada#{nth}"))
        assert_equal "302", saved.code, saved.body
        note = http.get(URI(saved["location"]).path).body
        assert_includes note, "by Ada#{nth}"
        assert_equal scan, http.get(note[/href="([^"]*proxy[^"]*)"/, 1]).body
      end
    end
  end

  # Streams know who asks, see only their own transaction, and are not touched by requests beside them.
  def test_streams
    names = Array.new(STREAMS) { |nth| "s#{nth}-#{SecureRandom.hex(4)}" }
    streams = names.map { |name| open_stream("/streams/#{name}#{'?write=1' if writes?}", "X-Visitor: #{name}\r\n") }
    streams.each { |stream| read_until(stream, "data: start") }
    %w[one two].each do |word|
      beside = Thread.new { crowd(STREAMS) { |nth| get("/visitor", "X-Visitor": "Grace#{nth}").code } }
      names.each { |name| post("/streams/#{name}/next?word=#{word}") }
      names.zip(streams) do |name, stream|
        assert_includes read_until(stream, "]"), "data: #{word} #{name} [#{name if writes?}]"
      end
      assert_equal ["200"], beside.value.uniq
    end
    names.each { |name| post("/streams/#{name}/next?word=end") }
    streams.each { |stream| read_until(stream, "0\r\n\r\n") }
  end

  # The stream learns of it when it writes.
  def test_clients_that_leave_end_their_streams
    name = "left-#{SecureRandom.hex(4)}"
    stream = open_stream("/streams/#{name}")
    read_until(stream, "data: start")
    stream.reset
    assert eventually { post("/streams/#{name}/next?word=more") && get("/streams/#{name}/left").body == "true" }
  end

  # The server's dashboard, mounted in the app.
  def test_dashboard = assert_behind_login(server.port)

  def test_action_cable
    origin = "Origin: http://a.test\r\n"
    cables = Array.new(10) { Cable.new(open_stream("/cable", Cable::UPGRADE + origin), "NewsChannel") }
    cables.each do |cable|
      assert_equal "welcome", cable.receive["type"]
      cable.send("subscribe")
      assert_equal "confirm_subscription", cable.receive["type"]
    end
    cables.first.send("message", data: JSON.generate(action: "tell", text: "good"))
    crowd(5) { |nth| post("/news?text=#{nth}") }
    cables.each { |cable| assert_equal %w[0 1 2 3 4 good], Array.new(6) { cable.receive["message"]["text"] }.sort }
  end

  private

  def form_with(scan, fields, headers)
    file = ["note[scan]", StringIO.new(scan), { filename: "scan.bin", content_type: "application/octet-stream" }]
    Net::HTTP::Post.new("/notes", headers).tap { |post| post.set_form([*fields, file], "multipart/form-data") }
  end

  # With SQLite, one transaction that writes keeps out all others.
  def writes? = true
end

# As its Dockerfile starts it, with SQLite, and jobs beside the server.
class Rails8Test < Minitest::Test
  include Rails8Tests

  # Thruster, and behind it the server.
  class Container < Rails8Tests::Booting
    attr_writer :front

    # Thruster's, once the server is there.
    def port = super && @front

    # Thruster passes a TERM on, and waits for what it has started.
    def destroy
      signal(:TERM) unless @status
      wait(within: SECONDS)
    ensure
      super
    end
  end

  def self.start
    front, back = Array.new(2) { Addrinfo.tcp("127.0.0.1", 0).bind { |socket| socket.local_address.ip_port } }
    words = %w[ENTRYPOINT CMD].flat_map { |name| JSON.parse(dockerfile[/^#{name} (.*)/, 1]) }
    words[0] = words[0].sub("/rails/", "./")
    env = { "HTTP_PORT" => front.to_s, "TARGET_PORT" => back.to_s, "SOLID_QUEUE_IN_PUMA" => "1" }
    Container.new(words, dir: GeneratedRails.dir, env: GeneratedRails.environment.merge(env)).tap do |container|
      container.front = front
    end
  end

  def self.dockerfile = File.read(File.join(GeneratedRails.dir, "Dockerfile"))

  # config/puma.rb has `plugin :solid_queue if ENV["SOLID_QUEUE_IN_PUMA"]`.
  def test_jobs
    title = "job-#{SecureRandom.hex(4)}"
    assert_equal "202", post("/jobs?title=#{title}").code
    assert eventually(within: FrameworkCase::SECONDS) { get("/jobs/#{title}").body == "1" }
  end

  private

  def writes? = false
end

# With PostgreSQL, in each mode.
module Rails8PostgresTests
  include Rails8Tests

  def self.included(test)
    Rails8Tests.included(test)
    test.extend(ClassMethods)
  end

  module ClassMethods
    def missing = super || Postgres.missing

    # Each stream has a connection for itself. More threads would be more than the processors can keep busy.
    def env = GeneratedRails.on_postgres.merge("RAILS_MAX_THREADS" => "20")

    # Gems have warnings of Ruby's own, which nobody reads here.
    def abaca(*options) = serve(*(Command.words(["-b", "tcp://127.0.0.1:0", *options]) - ["-w"]), env:)
  end
end

class Rails8FiberTest < Minitest::Test
  include Rails8PostgresTests

  def self.start = serve("bin/rails", "server", "--binding", "127.0.0.1", "--port", "0", env:)
end

class Rails8ThreadTest < Minitest::Test
  include Rails8PostgresTests

  def self.start = abaca("--mode", "thread")
end

class Rails8HybridTest < Minitest::Test
  include Rails8PostgresTests

  def self.start = abaca("--mode", "hybrid")
end

# What a developer runs.
class Rails8DevelopmentTest < Minitest::Test
  include Command
  include MountedWeb

  # What Puma prints from "Puma starting" to "Use Ctrl-C", two more, and the dashboard's link.
  LINES_AT_BOOT = 9 + 2 + 1

  def self.run(*)
    GeneratedRails.dir unless GeneratedRails.missing
    super
  end

  def setup
    skip GeneratedRails.missing if GeneratedRails.missing
    super
  end

  def teardown = (super unless GeneratedRails.missing)

  # In the browser's place: Capybara without one, and a client of the server that Capybara starts.
  def test_system_tests
    output = GeneratedRails.run("bin/rails", "test:system", env: { "RAILS_ENV" => "test" })
    assert_match(/^2 runs, \d+ assertions, 0 failures, 0 errors, 0 skips$/, output)
  end

  def test_bin_dev_reloads
    env = GeneratedRails.environment.merge("RAILS_ENV" => "development", "ABACA_DASHBOARD" => nil)
    words = %w[bin/dev --binding 127.0.0.1 --port 0]
    server = Rails8Tests::Booting.new(words, dir: GeneratedRails.dir, env:).tap { |booting| @processes << booting }
    assert_includes server.get("/").body, "<h1>Notes</h1>"
    change("app/models/note.rb", "Notes", "Papers") { assert_includes server.get("/").body, "<h1>Papers</h1>" }
    assert_match(/^=> Booting Abaca$/, server.output)
    10.times { server.get("/") }
    refute_match(/^abaca: /, server.output) # no warning
    assert_operator server.output[/^Abaca starting.*Use Ctrl-C/m].lines.size, :<=, LINES_AT_BOOT, server.output
    assert_acts(server.port, *assert_behind_login(server.port))
  end

  private

  # Changes a file of the app while the block runs.
  def change(name, old, new)
    path = File.join(GeneratedRails.dir, name)
    text = File.read(path)
    File.write(path, text.sub(old, new))
    yield
  ensure
    File.write(path, text)
  end
end
