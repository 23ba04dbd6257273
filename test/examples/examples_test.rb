# frozen_string_literal: true

require "test_helper"
require "etc"
require "json"
require_relative "../cli/command"

# Each example runs as its comment says, and does what it shows.
class ExamplesTest < Minitest::Test
  include Command

  # Starts an example with Bundler's gems.
  def example(name)
    start("-b", "tcp://127.0.0.1:0", "#{ROOT}/examples/#{name}/config.ru")
  end

  def test_every_example_is_tested
    names = Dir.children("#{ROOT}/examples").select { |name| File.directory?("#{ROOT}/examples/#{name}") }

    assert_equal %w[export fanout hello roda sinatra], names.sort
  end

  def test_hello
    server = example("hello")
    page = server.get("/")

    assert_equal "200", page.code
    assert_equal "text/html; charset=utf-8", page["content-type"]
    assert_includes page.body, "<dt>Requests so far</dt><dd>1</dd>"
    assert_includes server.get("/", "User-Agent" => "<script>").body, "&lt;script&gt;"
    assert_equal "Hello, world!\n", server.get("/plain").body
    assert_equal "404", server.get("/none").code
  end

  def test_fanout_takes_as_long_as_the_slowest_call
    server = example("fanout")
    assert_match(/Three slow services/, server.get("/").body)
    data = JSON.parse(server.get("/fanout.json").body)

    assert_equal %w[accounts orders prices], data["calls"].map { |call| call["name"] }
    assert_equal ["slept 300 ms", "slept 200 ms", "slept 250 ms"], data["calls"].map { |call| call["answer"] }
    assert_operator data["sum"], :>=, 750
    slowest = data["calls"].map { |call| call["to"] }.max
    assert_operator slowest, :>=, 300
    assert_operator data["total"], :>=, slowest
    # No call waits for another one's end; but one may begin late on a machine that has other things to do.
    five = Array.new(5) { JSON.parse(server.get("/fanout.json").body)["calls"] }
    assert(five.any? { |calls| beside_each_other?(calls) })
  end

  def beside_each_other?(calls) = calls.map { |call| call["from"] }.max < calls.map { |call| call["to"] }.min

  # The bytes of the process that are in memory.
  def memory(server) = File.read("/proc/#{server.pid}/statm").split[1].to_i * Etc.sysconf(Etc::SC_PAGESIZE)

  # Reads an export; returns how many lines it has, and the last one.
  def export(server, rows)
    lines = 0
    rest = +""
    Net::HTTP.start("127.0.0.1", server.port) do |http|
      http.request_get("/export.csv?rows=#{rows}") do |response|
        response.read_body do |piece|
          lines += piece.count("\n")
          rest = (rest + piece).then { |text| text[-200..] || text }
        end
      end
    end
    [lines, rest.lines.last]
  end

  def test_export_of_a_million_lines_in_constant_memory
    server = example("export")
    assert_equal [11, "10,Chicory,791.90,yes\n"], export(server, 10)
    export(server, 50_000)
    before = memory(server)
    most = 0
    watching = true
    watcher = Thread.new { (most = [most, memory(server)].max) && sleep(0.02) while watching }
    assert_equal [1_000_001, "1000000,Abelia,0.00,yes\n"], export(server, 1_000_000)
    watching = false
    watcher.join
    assert_operator most, :>, 0
    assert_operator most - before, :<, 8 << 20
    assert_equal "404", server.get("/none").code
  end

  def test_sinatra
    server = example("sinatra")

    assert_match(/\AHello from Sinatra \d/, server.get("/").body)
    assert_equal "Hello, Ada!\n", server.get("/hello/Ada").body
    assert_equal "1\n2\n3\n", server.get("/count").body
    assert_equal "posted", Net::HTTP.post(URI("http://127.0.0.1:#{server.port}/echo"), "posted",
                                          "content-type" => "text/plain").body
    assert_equal "404", server.get("/none").code
  end

  def test_roda
    server = example("roda")

    assert_match(/\AHello from Roda \d/, server.get("/").body)
    assert_equal "Hello, Ada!\n", server.get("/hello/Ada").body
    sum = Net::HTTP.post_form(URI("http://127.0.0.1:#{server.port}/sum"), "numbers" => "1,2,39")
    assert_equal "42\n", sum.body
    assert_equal "404", server.get("/none").code
  end
end
