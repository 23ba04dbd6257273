# frozen_string_literal: true

require "test_helper"
require "minitest/mock"
require "rbconfig"
require_relative "../../bench/support/bench"
require_relative "../../bench/servers/catalog"
require_relative "../../bench/servers/load"
require_relative "../../bench/servers/contest"
require_relative "../../bench/servers/report"

# `bin/bench servers`: what becomes of a server that serves some loads and not others.
class BenchContestTest < Minitest::Test
  # Starts with bodies of 12 bytes, and with no others.
  class Small < Bench::Catalog::Server
    CODE = <<~'RUBY'
      require "socket"
      abort "no such body" unless ARGV[1] == "12"
      server = TCPServer.new("127.0.0.1", Integer(ARGV[0]))
      loop do
        socket = server.accept
        socket.gets("\r\n\r\n")
        socket.write("HTTP/1.1 200 OK\r\nContent-Length: 12\r\n\r\nHello World\n")
        socket.close
      end
    RUBY

    def command(port:, size:, **) = [RbConfig.ruby, "-e", CODE, port.to_s, size.to_s]
  end

  # In place of wrk.
  class Client
    NONE = %i[connect read write status timeout].to_h { |kind| [kind, 0] }.freeze # errors

    def run(**) = Bench::Wrk::Figures.new(requests: 10, microseconds: 1_000_000, p50: 1, p99: 2, **NONE)
  end

  def test_a_server_that_does_not_start_for_a_load_keeps_its_other_figures
    loads = [12, 500].map do |size|
      Bench::Load.new(name: "b#{size}", title: "#{size} bytes", connections: 1, body_size: size)
    end
    server = Small.new
    Bench::Loads.stub(:clients, { wrk: Client.new }) do
      contest = Bench::Contest.new(servers: [server], loads: loads, rounds: 2, seconds: 1, pinned: false,
                                   progress: StringIO.new)
      contest.run
      assert_equal 2, contest.turns.fetch(%w[small b12]).size
      assert_equal({ %w[small b500] => "does not start: ended at once: no such body" }, contest.failures)
      report = Bench::Report.new(contest: contest, servers: [server], loads: loads)
      assert_match(/^small, b500: does not start/, report.render)
      figures = report.to_h[:servers].first.fetch(:loads)
      assert_equal [2, nil], figures.values.map { |one| one[:rounds].size.nonzero? }
    end
  end
end
