# frozen_string_literal: true

# also: rubies

require "test_helper"
require "socket"
require_relative "command"

# `rackup -s abaca`: Rack finds the handler by its name, and its options reach the server.
class HandlerTest < Minitest::Test
  include Command

  def rackup(*argv)
    file("config.ru", "run ->(_env) { [200, { \"content-type\" => \"text/plain\" }, [ENV[\"RACK_ENV\"]]] }\n")
    words = [*Command.ruby, Gem.bin_path("rackup", "rackup"), "-s", "abaca", *argv]
    Running.new(words, dir: @dir).tap { |running| @processes << running }
  end

  def test_serves_and_ends_on_int
    server = rackup("-o", "127.0.0.1", "-p", "0", "-E", "production")

    assert_equal "production", server.get("/").body
    server.signal(:INT)
    assert_equal 0, server.wait.exitstatus
    assert_match(/- Goodbye!/, server.output)
  end

  # rackup's handler of INT is there before the configuration has been read.
  def test_an_int_before_there_is_a_server
    file("config/abaca.rb", "Process.kill(:INT, Process.pid)\nsleep 0.1\n")
    server = rackup("-o", "127.0.0.1", "-p", "0")

    assert_equal 0, server.wait.exitstatus
    assert_match(/Gracefully stopping.*- Goodbye!/m, server.output)
  end

  def test_a_stop_before_the_app_is_loaded
    file("config.ru", "ObjectSpace.each_object(Abaca::Launcher, &:stop)\nrun ->(_env) { [204, {}, []] }\n")
    server = start("-p", "0")

    assert_equal 0, server.wait.exitstatus
    assert_match(/Gracefully stopping.*- Goodbye!/m, server.output)
  end

  def test_options_of_the_handler
    server = rackup("-o", "127.0.0.1", "-p", "0", "-O", "Verbose")
    server.get("/seen")

    assert server.wait_for(%r{"GET /seen HTTP/1\.1" 200 })
  end

  def test_port_that_is_taken_is_one_line
    taken = TCPServer.new("127.0.0.1", 0)
    server = rackup("-o", "127.0.0.1", "-p", taken.addr[1].to_s)

    assert_equal 1, server.wait.exitstatus
    lines = own_lines(server.output).lines.grep_v(/\A(?:Abaca starting|\* )/) # the banner's head
    assert_equal 1, lines.size, server.output
    assert_match(/\Aabaca: cannot listen on tcp:/, lines.first)
  ensure
    taken&.close
  end
end
