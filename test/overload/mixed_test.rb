# frozen_string_literal: true

require "digest/sha2"
require "test_helper"
require "support/process_case"

# Everything at once, for some seconds: requests that compute, light ones, uploads in small pieces, streams,
# pipelines, and clients that leave in the middle. Each response is checked byte by byte, while the lead goes
# from loop to loop. MIXED_SECONDS is for how long.
class OverloadMixedTest < Minitest::Test
  include ProcessCase

  SECONDS = Float(ENV.fetch("MIXED_SECONDS", "2"))

  RACKUP = <<~'RUBY'
    require "digest/sha2"
    type = { "content-type" => "text/plain" }
    run(lambda do |env|
      number = env["QUERY_STRING"]
      body =
        case env["PATH_INFO"]
        when "/burn"
          ends = Process.clock_gettime(Process::CLOCK_MONOTONIC) + Float(number)
          nil while Process.clock_gettime(Process::CLOCK_MONOTONIC) < ends
          [number]
        when "/digest"
          digest = Digest::SHA256.new
          while (piece = env["rack.input"].read(3_000))
            digest << piece
          end
          [digest.hexdigest]
        when "/stream"
          Enumerator.new do |out|
            40.times do |i|
              out << "#{number}-#{i}\n"
              sleep 0.002 if (i % 8).zero?
            end
          end
        when "/callable"
          lambda do |stream|
            40.times { |i| stream << "#{number}-#{i}\n" }
            stream.close
          end
        when "/large" then [number * 20_000]
        when "/sleep"
          sleep 0.02
          [number]
        else [number]
        end
      [200, type, body]
    end)
  RUBY

  {
    "by_default" => "",
    "with_one_spare_loop" => "spare_loops 1\nstall_after 5\n",
    "without_spare_loops" => "spare_loops 0\nstall_after 5\n",
    "with_a_quantum" => "quantum 5\nstall_after 5\nspare_loops 2\n"
  }.each do |name, config|
    define_method("test_everything_at_once_#{name}") do
      command = run_abaca(RACKUP, config: "stall_report 0\n#{config}")
      checked = %i[light light pipeline digest digest stream callable large sleeper burn burn burn leave].map do |kind|
        Thread.new { play(kind, command.port) }
      end
      counts = checked.map(&:value)
      assert counts.all?(&:positive?), counts.inspect
      command.signal(:TERM)
      assert_equal 0, command.wait.exitstatus, command.text
      said = command.text.lines.grep_v(/timer_create failed/) # which is about Ruby and the machine
      assert_equal "", said.grep(/warning:|\[BUG\]|error in the app/).join
    end
  end

  private

  # Sends requests of a kind until the time is over, which begins when its thread does; returns how many.
  def play(kind, port)
    Thread.current.report_on_exception = false
    stop = now + SECONDS
    count = 0
    client = nil
    while now < stop
      if client.nil? || (count % 50).zero?
        client&.close
        client = Wire::Client.new(port)
      end
      count += 1
      client = nil if send(kind, client, count) == :left
    end
    count
  ensure
    client&.close
  end

  def get(client, path, expected)
    response = client.call("GET #{path} HTTP/1.1\r\nHost: a.test\r\n\r\n")
    raise "#{path}: #{response.status} #{response.body[0, 200].inspect}" unless response.status == 200 &&
                                                                                response.body == expected
  end

  def light(client, number) = get(client, "/?n#{number}", "n#{number}")
  def sleeper(client, number) = get(client, "/sleep?n#{number}", "n#{number}")
  def large(client, number) = get(client, "/large?n#{number}", "n#{number}" * 20_000)
  def stream(client, number) = get(client, "/stream?#{number}", Array.new(40) { |i| "#{number}-#{i}\n" }.join)
  def callable(client, number) = get(client, "/callable?#{number}", Array.new(40) { |i| "#{number}-#{i}\n" }.join)

  def burn(client, number)
    time = [0.01, 0.05, 0.3][number % 3].to_s
    get(client, "/burn?#{time}", time)
  end

  def pipeline(client, number)
    client.write(Array.new(8) { |i| "GET /?#{number}.#{i} HTTP/1.1\r\nHost: a.test\r\n\r\n" }.join)
    8.times do |i|
      body = client.read.body
      raise "the pipeline's #{i} is #{body.inspect}" unless body == "#{number}.#{i}"
    end
  end

  def digest(client, number)
    body = Random.new(number).bytes(20_000)
    client.write("POST /digest HTTP/1.1\r\nHost: a.test\r\nContent-Length: #{body.bytesize}\r\n\r\n")
    body.scan(/.{1,2000}/mn) do |piece|
      client.write(piece)
      sleep 0.001
    end
    got = client.read.body
    raise "the digest is #{got}" unless got == Digest::SHA256.hexdigest(body)
  end

  # Goes away at different times: before the response, and in the middle of it.
  def leave(client, number)
    path = %w[/stream?x /large?x /sleep?x /digest][number % 4]
    verb = path == "/digest" ? "POST" : "GET"
    length = verb == "POST" ? "Content-Length: 1000\r\n" : ""
    client.write("#{verb} #{path} HTTP/1.1\r\nHost: a.test\r\n#{length}\r\n")
    client.read_some(10) if number.even? && verb == "GET"
    (number % 3).zero? ? client.reset : client.close
    sleep 0.005
    :left
  end
end
