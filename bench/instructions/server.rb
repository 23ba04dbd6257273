# frozen_string_literal: true

# The server whose instructions are counted: hello world, with a slot of a page or without. It says its port, and ends
# when its standard input does.
require "abaca"

app = ->(_env) { [200, { "content-type" => "text/plain" }, ["Hello, world!\n"]] }
slot = Abaca::Page.create(slots: 1)[0].claim if ARGV[0] == "slot"
server = Abaca::Server.new(app, slot:)
puts server.add_tcp_listener("127.0.0.1", 0)
$stdout.flush
Thread.new { server.stop unless $stdin.read.nil? }
GC.disable # what a collection marks depends on the boot
server.run
