# frozen_string_literal: true

require "test_helper"
require "support/process_case"
require "support/shim"

# A body without end, for a client that reads as fast as the app writes: the writer never has to wait for it. All others
# get their turns all the same.
class FaultFastReaderTest < Minitest::Test
  include ProcessCase
  include Shim

  APP = <<~RUBY
    piece = ("to the fast reader" * 60).freeze
    ends = false
    begun = 0
    pieces = Class.new { define_method(:each) { |&block| block.call(piece) until ends } }
    stream = ->(out) { out.write(piece) until ends; out.close }
    run lambda { |env|
      begun += 1 if %w[/each /call /outbox].include?(env["PATH_INFO"])
      case env["PATH_INFO"]
      when "/each" then [200, {}, pieces.new]
      when "/call" then [200, {}, stream]
      when "/outbox" then [200, {}, Abaca::Outbox.new { |out| out << piece until ends }]
      when "/end" then [200, {}, [(ends = true).to_s]]
      else [200, {}, [begun.to_s]]
      end
    }
  RUBY
  # Nobody helps the loop.
  CONFIG = "mode :fiber\nspare_loops 0\nstall_after 0\n"

  %w[each call outbox].each do |path|
    define_method("test_a_body_by_#{path}") do
      command = with_shim("fast_reader") { run_abaca(APP, config: CONFIG) }
      writers = Array.new(3) { connect(command.port).write("GET /#{path} HTTP/1.1\r\nHost: a.test\r\n\r\n") }
      client = connect(command.port)
      assert(eventually { client.call("GET / HTTP/1.1\r\nHost: a.test\r\n\r\n").body == writers.size.to_s })
      assert_equal "true", client.call("GET /end HTTP/1.1\r\nHost: a.test\r\n\r\n").body
      writers.each(&:close)
    end
  end
end
