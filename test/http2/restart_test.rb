# frozen_string_literal: true

require "test_helper"
require "support/cluster_case"
require "support/http2_client"
require "support/waits"

# Workers are replaced while clients ask many things at once on connections of HTTP/2, more than a processor can do:
# nothing is lost that a client may not send again.
class Http2RestartTest < Minitest::Test
  include ClusterCase
  include Waits

  CONFIG = "bind 'tcp://127.0.0.1:0?h2c=true'\nworkers 2\npreload_app! false\n"
  APP = <<~RUBY
    module Page
      def self.compute(seconds = 0.006)
        limit = Process.clock_gettime(Process::CLOCK_THREAD_CPUTIME_ID) + seconds
        nil while Process.clock_gettime(Process::CLOCK_THREAD_CPUTIME_ID) < limit
      end
    end
    run ->(_env) { sleep 0.01; Page.compute; [200, { "content-type" => "text/plain" }, ["Hello"]] }
  RUBY
  AT_ONCE = 8

  # A client that asks until it is stopped. What the server says it has not looked at, the client asks again on another
  # connection (RFC 9113 6.8); anything else that is not answered is a failure.
  class Asker
    attr_reader :answers, :refused, :connections, :failures

    def initialize(port)
      @port = port
      @answers = @refused = @connections = 0
      @failures = []
      @thread = Thread.new { ask_on(connect) until @stop || @failures.any? }
    end

    def stop
      @stop = true
      @thread.join(30) || raise("a client is stuck")
      self
    end

    private

    def connect
      @connections += 1
      Http2Client.new(@port)
    end

    # Until the server announces the connection's end.
    def ask_on(client)
      (1..).step(2 * AT_ONCE) do |first|
        streams = Array.new(AT_ONCE) { |nth| first + (2 * nth) }
        streams.each { |stream| client.send_words("headers $ es,eh :get", stream: stream) }
        client.read_until { client.ended? || streams.all? { |stream| done?(client, stream) } }
        streams.each { |stream| count(client, stream) }
        break if @stop || @failures.any? || client.goaway || client.ended?

        client.frames.clear
      end
    rescue StandardError => e
      @failures << e.full_message
    ensure
      client.close
    end

    def done?(client, stream) = client.complete?(stream) || repeatable?(client, stream)

    def repeatable?(client, stream)
      last = client.of("goaway").last&.payload&.unpack1("N")
      client.reset(stream) == "REFUSED_STREAM" || (last && last < stream)
    end

    def count(client, stream)
      if client.status(stream) == 200 && client.body(stream) == "Hello"
        @answers += 1
      elsif repeatable?(client, stream)
        @refused += 1
      else
        @failures << "stream #{stream}: #{client.frames.last(5)}"
      end
    end
  end

  def test_phased_restarts
    File.write(File.join(@directory, "settings.rb"), CONFIG)
    File.write(File.join(@directory, "config.ru"), APP)
    command = start_abaca("-C", "settings.rb", "config.ru")
    wait_for_workers(command, 2)
    askers = Array.new(4) { Asker.new(command.port) }
    assert eventually { askers.all? { |one| one.answers > 20 } }
    2.times do |nth|
      command.signal(:USR1)
      assert eventually { running(command).map(&:phase) == [nth + 1] * 2 }, command.text
    end
    assert_empty askers.map(&:stop).flat_map(&:failures)
    # Each had a connection to a worker that went, at least.
    askers.each { |one| assert_operator one.connections, :>, 1 }
    assert_equal 0, finish(command)
  ensure
    askers&.each(&:stop)
  end
end
