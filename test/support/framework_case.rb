# frozen_string_literal: true

require "stringio"
require_relative "../cli/command"
require_relative "wire"

# For tests of applications in test/frameworks: each runs as the command serves it, once for all tests of
# its class, with the gems of its own Gemfile if it has one (bin/setup installs them).
module FrameworkCase
  FOLDER = File.expand_path("../frameworks", __dir__)
  SECONDS = 60

  def self.included(test)
    test.extend(ClassMethods)
  end

  # The application of a test class.
  module ClassMethods
    # Names the folder of the application.
    def application(name) = @application = name

    # Starts the server.
    def start
      folder = File.join(FOLDER, @application)
      words = Command.words(["-b", "tcp://127.0.0.1:0", "config.ru"])
      Command::Running.new(words, dir: folder, env: FrameworkCase.environment(folder))
    end

    # The running server.
    def server
      return @server if @server

      @server = start
      @server.port
      # Nothing else reads it, and a full pipe would stop the application.
      @reader = Thread.new(@server, &:read_on)
      @server
    end

    # Minitest's: runs the tests of the class. Other classes check for leftover processes.
    def run(*)
      super
    ensure
      @server&.destroy
      @reader&.join
      @server = @reader = nil
    end
  end

  # What Bundler needs to use the application's gems.
  def self.environment(folder)
    gemfile = File.join(folder, "Gemfile")
    env = { "RACK_ENV" => "production", "RAILS_ENV" => "production", "HANAMI_ENV" => "production" }
    return env unless File.exist?(gemfile)

    bundle = File.join(Command::ROOT, "vendor/bundle")
    path = ENV.fetch("BUNDLE_PATH") { bundle if File.directory?(bundle) }
    env.merge(Bundle::OUTER, "BUNDLE_GEMFILE" => gemfile, "BUNDLE_LOCKFILE" => nil, "BUNDLE_PATH" => path,
                             "RUBYOPT" => "-rbundler/setup")
  end

  def setup
    super
    @clients = []
    server # before a test's threads ask for it
  end

  def teardown
    @clients.each(&:close)
    puts "#{name}: the application said:", server.output.lines.last(40) unless passed?
    super
  end

  def server = self.class.server

  def get(path, **headers) = server.get(path, **headers)

  # What POST of `body` answers.
  def post(path, body = "")
    Net::HTTP.start("127.0.0.1", server.port, read_timeout: SECONDS) do |http|
      http.post(path, body, "content-type" => "text/plain")
    end
  end

  # What POST of a form with a file answers.
  def upload(path, to:, content:)
    request = Net::HTTP::Post.new(path)
    file = StringIO.new(content)
    request.set_form([["to", to], ["label", file, { filename: "label.txt", content_type: "text/x-label" }]],
                     "multipart/form-data")
    Net::HTTP.start("127.0.0.1", server.port, read_timeout: SECONDS) { |http| http.request(request) }
  end

  # Starts a response that is streamed; it is closed after the test. fields: further lines of the request.
  def open_stream(path, fields = "")
    client = Wire::Client.new(server.port, timeout: SECONDS)
    @clients << client
    client.write("GET #{path} HTTP/1.1\r\nHost: a.test\r\n#{fields}\r\n")
  end

  # Reads from a stream until `text` arrives; returns everything read.
  def read_until(stream, text)
    bytes = String.new(encoding: Encoding::BINARY)
    until bytes.include?(text)
      piece = stream.read_some or flunk "the stream ended: #{bytes}"
      bytes << piece
    end
    bytes
  end

  # Each event comes when it has been allowed, and not with the next one. `word` converts what was posted into what
  # the client sees.
  def assert_events_one_by_one(words)
    stream = open_stream("/events")
    words.each_with_index do |word, nth|
      assert_equal "204", post("/events", word).code
      bytes = read_until(stream, word)
      words[(nth + 1)..].each { |later| refute_includes bytes, later }
      assert_match(%r{\AHTTP/1\.1 200 .*^transfer-encoding: chunked\r$}mi, bytes) if nth.zero?
    end
    stream
  end

  # The same connection serves the next request.
  def assert_usable(stream, path)
    stream.write("GET #{path} HTTP/1.1\r\nHost: a.test\r\n\r\n")
    assert_match(%r{HTTP/1\.1 200}, read_until(stream, "HTTP/1.1 200"))
  end
end
