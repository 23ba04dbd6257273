# frozen_string_literal: true

require_relative "../test_helper"
require_relative "../support/programs"
require_relative "../support/sight_case"

# The field Server-Timing: who gets it, and what it says.
class ServerTimingTest < Minitest::Test
  include SightCase
  include Programs

  SECRET = "a secret of some length"
  # By another library.
  def self.hmac(secret, text) = OpenSSL::HMAC.hexdigest("SHA256", secret, text)

  # Responses of several kinds, which take their time.
  class App < SightCase::App
    def call(env)
      case env["PATH_INFO"]
      when "/own" then [200, { "server-timing" => "cache;desc=hit" }, ["ok\n"]]
      when "/stream" then slowly { [200, {}, Pieces.new] }
      when "/trailers" then [200, { "abaca.trailers" => { "x-sum" => "1" } }, Pieces.new]
      when "/raise" then raise "no"
      else super
      end
    end

    # A body that waits between its pieces.
    class Pieces
      def each
        yield "one"
        Kernel.sleep(0.12)
        yield "two"
      end
    end

    private

    def slowly
      Kernel.sleep(0.05)
      yield
    end
  end

  %w[fiber thread hybrid guest:PlainScheduler].each do |mode|
    define_method("test_a_response_says_where_its_time_went_in_mode_#{mode.tr(':', '_')}") do
      serve(mode, server_timing: true) do |server|
        answer, limit = timed { server.ask("/sleep") }
        times = times_of(answer)
        waited = times[:sleep] || times[:io] || times[:run] # what threads of Ruby tell
        assert_includes 140..times.values.sum, waited, answer
        assert_operator times.values.sum, :<=, limit, answer
      end
    end
  end

  def test_what_the_app_says_is_kept
    serve("fiber", server_timing: true) do |server|
      assert_match(/^server-timing: cache;desc=hit\r\n.*^Server-Timing: /mi, server.ask("/own"))
      refute_match(/Server-Timing/, server.ask("/raise"), "an answer of the server's own")
    end
  end

  def test_what_comes_after_the_head_is_a_trailer
    serve("fiber", server_timing: true) do |server|
      answer, limit = timed { server.ask("/stream", "TE: trailers") }
      head, rest = answer.split("\r\n\r\n", 2)
      assert_match(/^Trailer: Server-Timing\r?$/, head)
      assert_match(/\r\n0\r\nServer-Timing: [^\r]+\r\n\r\n\z/, rest)
      assert_times(limit, head, rest)
      answer = server.ask("/trailers", "TE: trailers")
      assert_match(/\r\n0\r\nx-sum: 1\r\nServer-Timing: .*sleep;dur=1/i, answer)
      assert_match(/\r\n0\r\n\r\n\z/, server.ask("/stream"), "its client takes no trailers")
    end
  end

  def test_http2_has_it_in_head_and_trailer
    serve("fiber", server_timing: true) do |server|
      command = ["nghttp", "-v", "-H", "te: trailers", "http://127.0.0.1:#{server.port}/stream"]
      out, limit = timed { run_program(*command) }
      head, rest = out.scan(/\) (server-timing: .*)/).flatten
      assert_match(/\) trailer: Server-Timing/, out)
      assert_times(limit, head, rest)
    end
  end

  def test_elsewhere_a_signed_request_gets_it
    guard = Abaca::ServerTiming.new(SECRET)
    other = Abaca::ServerTiming.new("another secret too").sign
    fields = { guard.sign => true, "" => false, "1.2" => false, other => false,
               guard.sign.sub(/\d+/) { |till| (till.to_i + 1).to_s } => false }
    serve("fiber", server_timing_secret: SECRET, environment: "production") do |server|
      refute_match(/Server-Timing/, server.ask("/sleep"))
      fields.each do |field, allowed|
        found = server.ask("/sleep", "Abaca-Timing: #{field}").include?("Server-Timing: ")
        assert_equal allowed, found, field
      end
      double = server.ask("/sleep", "Abaca-Timing: #{guard.sign}", "Abaca-Timing: #{guard.sign}")
      refute_match(/Server-Timing/, double)
    end
  end

  def test_by_default_only_in_development
    { "development" => true, "production" => false, "test" => false }.each do |environment, expected|
      told = ->(**settings) { Abaca::Config.new({ environment:, **settings }).server_timing }
      assert_equal expected, told.call, environment
      assert_equal false, told.call(server_timing: false, server_timing_secret: SECRET)
      assert_equal true, told.call(server_timing: true)
      assert_kind_of expected ? TrueClass : Abaca::ServerTiming, told.call(server_timing_secret: SECRET)
    end
    assert_raises(Abaca::ConfigError) { Abaca::Config.new({ server_timing_secret: "short" }) }
  end

  def test_a_signature_is_an_hmac_and_ends
    require "openssl"
    now = 1_000_000.5
    [SECRET, "s" * 64, "l" * 200].each do |secret|
      guard = Abaca::ServerTiming.new(secret, clock: -> { now })
      field = guard.sign(60)
      till, signature = field.split(".")
      assert_equal "1000061", till
      assert_equal self.class.hmac(secret, "abaca-timing #{till}"), signature
      assert guard.allow?(field)
      now += 60
      assert guard.allow?(field)
      now += 1
      refute guard.allow?(field), "it is over"
      now -= 61
    end
    guard = Abaca::ServerTiming.new(SECRET, clock: -> { now })
    far = "#{now.to_i + 1_000_000}.#{self.class.hmac(SECRET, "abaca-timing #{now.to_i + 1_000_000}")}"
    refute guard.allow?(far), "nobody signs for so long"
    ["", "x", "1.", "#{guard.sign}\n", guard.sign.delete("."), "\xff".b].each { |field| refute guard.allow?(field) }
  end

  def test_the_command_signs
    Dir.mktmpdir do |dir|
      file = File.join(dir, "abaca.rb")
      File.write(file, "server_timing_secret \"#{SECRET}\"\n")
      out, err, status = command("-C", file)
      assert_equal [0, ""], [status, err]
      assert Abaca::ServerTiming.new(SECRET).allow?(out[/\AAbaca-Timing: (\S+)\n\z/, 1])
      assert_match(%r{\Acurl .*-H Abaca-Timing:\\ \S+ -H 'TE: trailers' http://a\.test/x\\\?b\\=c\n\z},
                   command("-C", file, "--for", "60", "http://a.test/x?b=c").first)
      assert_equal ["", "abaca: --for: 1 to 86400 seconds are needed, not 0\n", 1], command("-C", file, "--for", "0")
      File.write(file, "")
      assert_equal ["", "abaca: there is no server_timing_secret in the configuration\n", 1], command("-C", file)
    end
  end

  private

  # What the block returns, and the milliseconds that it took.
  def timed
    began = now
    [yield, (now - began) * 1_000]
  end

  # The 50 ms before the head are in it, the 120 ms behind it in the trailer, and neither in both.
  def assert_times(limit, *parts)
    head, rest = parts.map { |part| times_of(part)[:sleep] }
    assert_operator head, :>=, 45
    assert_operator rest, :>=, 115
    assert_operator head + rest, :<=, limit
  end

  def command(*argv)
    out = StringIO.new
    err = StringIO.new
    status = Abaca::CLI.run(["timing", *argv], out:, err:)
    [out.string, err.string, status]
  end

  # Milliseconds by state, as the field has them.
  def times_of(answer)
    field = answer[/^Server-Timing: ([^\r\n]*)/i, 1] or flunk("no Server-Timing: #{answer}")
    field.split(", ").to_h { |entry| entry.split(";dur=") }.to_h { |name, time| [name.to_sym, Float(time)] }
  end
end
