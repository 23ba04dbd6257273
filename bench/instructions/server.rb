# frozen_string_literal: true

# The server whose instructions are counted: hello world in a mode, with a slot of a page or without, as in production:
# no response says where the time went. It says its port, and ends when its standard input does.
require "abaca"

kind, mode = ARGV
app = ->(_env) { [200, { "content-type" => "text/plain" }, ["Hello, world!\n"]] }
slot = Abaca::Page.create(slots: 1)[0].claim if kind == "slot"
server = Abaca::Server.new(app, slot:, mode: mode.to_sym, server_timing: false)
puts server.add_tcp_listener("127.0.0.1", 0)
$stdout.flush
Thread.new { server.stop unless $stdin.read.nil? }
GC.disable # what a collection marks depends on the boot
server.run
