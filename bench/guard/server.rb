# frozen_string_literal: true

# The server that the guard counts: `ruby server.rb MODE UPSTREAM PORTS CERT KEY [AROUND]`, with counted.c loaded
# before. MODE is fiber or thread, with _bare behind it without a page. It writes its ports as JSON to the file PORTS.
# UPSTREAM is the port that the app asks when it waits. AROUND is a file with a lambda that gets the app and returns
# another: what a test adds to the request path.
require "fiddle"
require "json"
require "socket"
require "abaca"

module Guard
  TEXT = { "content-type" => "text/plain" }.freeze
  FIELDS = TEXT.merge("cache-control" => "max-age=60, public", "etag" => "\"5f2c-61\"", "vary" => "accept-encoding",
                      "x-frame-options" => "SAMEORIGIN", "x-request-id" => "0123456789abcdef",
                      "referrer-policy" => "no-referrer", "set-cookie" => "a=b; path=/; httponly",
                      "x-runtime" => "0.001").freeze
  HELLO = ["Hello, world!\n"].freeze

  # Eight pieces.
  PIECES = Object.new
  def PIECES.each
    8.times { yield "0123456789abcdef" }
  end

  # The app: a path for each row, and those that begin and end the counting on the thread that runs them.
  class App
    def initialize(upstream)
      @upstream = TCPSocket.new("127.0.0.1", upstream)
      @answer = +""
      @begin, @end = %w[guard_begin guard_end].map do |name|
        Fiddle::Function.new(Fiddle.dlopen(nil)[name], [], Fiddle::TYPE_VOID, need_gvl: true)
      end
    end

    def call(env)
      case env["PATH_INFO"]
      when "/hello" then [200, TEXT, HELLO]
      when "/fields" then [200, FIELDS, HELLO]
      when "/pieces" then [200, TEXT, PIECES]
      when "/wait" then wait
      when "/collect" then collect
      when "/begin" then begin_count
      when "/end" then end_count
      end
    end

    private

    def wait
      @upstream.syswrite("?")
      @upstream.readpartial(16, @answer)
      [200, TEXT, HELLO]
    end

    # Nothing is collected while it counts: what a collection finds depends on the boot.
    def collect
      GC.enable
      GC.start
      GC.disable
      [200, TEXT, HELLO]
    end

    def begin_count
      @objects = GC.stat(:total_allocated_objects)
      @begin.call
      [200, TEXT, HELLO]
    end

    def end_count
      @end.call
      [200, TEXT, [(GC.stat(:total_allocated_objects) - @objects).to_s]]
    end
  end
end

mode, upstream, ports, cert, key, around = ARGV
app = Guard::App.new(Integer(upstream))
app = eval(File.read(around), binding, around).call(app) if around # rubocop:disable Security/Eval -- a test's own file
mode, bare = mode.split("_")
slot = Abaca::Page.create(slots: 1)[0].claim unless bare
threads = mode == "thread" ? { threads: 1 } : {}
# The objects of heartbeats would count, the more of them the slower the machine is: there is one at the boot.
if defined?(Abaca::Heart::INTERVAL)
  Abaca::Heart.send(:remove_const, :INTERVAL)
  Abaca::Heart::INTERVAL = 3600
end
# Under valgrind everything is slow: nobody shall find a stall, and report it, nor close a connection whose row comes
# last.
server = Abaca::Server.new(app, slot:, environment: "production", stall_after: 0, stall_report: 0,
                                persistent_timeout: 3600, mode: mode.to_sym, **threads)

# Nil where Abaca is built without the library.
def port
  yield
rescue Abaca::ConfigError
  nil
end

open = { http: server.add_tcp_listener("127.0.0.1", 0),
         http2: port { server.add_tcp_listener("127.0.0.1", 0, h2c: true) },
         tls: port { server.add_ssl_listener("127.0.0.1", 0, cert:, key:) } }
File.write("#{ports}.new", JSON.generate(open))
File.rename("#{ports}.new", ports)
GC.disable
server.run
