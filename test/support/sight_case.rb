# frozen_string_literal: true

require "fiddle"
require "socket"
require "tmpdir"
require_relative "page_rows"
require_relative "server_case"
require_relative "waits"

# For tests that look at the page of a server: it runs in a process of its own, and what its requests wait for is in
# the test's hands.
module SightCase
  # A request's place to wait in, beside its path.
  class Served
    attr_reader :rows, :database, :full, :slot, :pid, :port

    def initialize(pid, port, parts, slot)
      @pid = pid
      @slot = slot
      @port = port
      @rows = PageRows.new(pid)
      @parts = parts
      @database = parts[:database].addr[1]
      @full = parts[:full].addr[1]
      @sockets = {}
    end

    # Sends a request, and does not wait.
    def begin(path)
      @sockets[path] = socket = connect
      case path
      when "/body" then socket.write(head("POST", path, "Content-Length: 4\r\n"), "ab")
      else socket.write(head("GET", path))
      end
      @peer = @parts[:database].accept if path == "/db"
      @peer = @parts[:unix].accept if path == "/unix"
    end

    # Ends its wait, and reads the answer.
    def finish(path)
      case path
      when "/io", "/lock", "/pool", "/offload", "/stream" then @parts[:writer].write("x")
      when "/children" then @parts[:writer].write("xx")
      when "/db", "/unix" then @peer.close
      when "/body" then @sockets[path].write("cd")
      end
      read(@sockets.delete(path))
    end

    # Ends one wait of "/lock", whoever has it.
    def release = @parts[:writer].write("x")

    def end_connect
      @parts[:full].accept.close
      @parts[:full].accept.close
      read(@sockets.delete("/connect"))
    end

    def get(path)
      self.begin(path)
      finish(path)
    end

    # Sends all of a request, and reads until the server closes.
    def ask(path, *fields, method: "GET")
      socket = connect
      socket.write(head(method, path, fields.map { |field| "#{field}\r\n" }.join))
      read(socket)
    end

    # A connection, for what no method here does.
    def connect = TCPSocket.new("127.0.0.1", @port)

    def send_in_pieces(first, second)
      socket = connect
      close = "\r\nConnection: close\r\n\r\n"
      socket.write(first.sub("\r\n\r\n", close))
      sleep 0.1
      socket.write(second.sub("\r\n\r\n", close))
      read(socket)
    end

    # The row of a request in that state, as soon as there is one.
    def row_in(state, path = nil)
      found = nil
      Waits.eventually do
        found = rows.used.find { |row| row[:state] == state && (path.nil? || row[:path] == path) }
      end
      found
    end

    def queued_row
      found = nil
      Waits.eventually { found = rows.used(:queued).first }
      found
    end

    # What the last request for a path has left, as soon as it is over.
    def row_of(path)
      found = nil
      Waits.eventually do
        found = rows.all.select { |row| row[:path] == path }.max_by { |row| row[:id] }
        found && !found[:used]
      end
      found
    end

    def last_row
      found = nil
      Waits.eventually do
        found = rows.all.max_by { |row| row[:id] }
        found && !found[:used]
      end
      found
    end

    private

    def head(method, path, more = "") = "#{method} #{path} HTTP/1.1\r\nHost: a.test\r\n#{more}Connection: close\r\n\r\n"

    # Not by IO#read, whose buffer grows a little at a time: a sanitizer copies it each time.
    def read(socket)
      answer = +""
      answer << socket.readpartial(1_000_000) until socket.eof?
      answer
    ensure
      socket.close
    end
  end

  # Serves in a child, and yields what the test has of it.
  def serve(mode, **options)
    parts = make_parts
    port_reader, port_writer = IO.pipe
    page = Abaca::Page.create(slots: 1)
    pid = fork { run_server(mode, options, parts, page, port_writer) }
    port_writer.close
    served = Served.new(pid, Integer(port_reader.gets), parts, page[0])
    yield served
  ensure
    served&.rows&.close
    Process.kill(:KILL, pid) if pid
    Process.wait(pid) if pid
    [port_reader, page].each { |part| part&.close }
    parts&.each_value { |io| io.close unless io.closed? }
  end

  private

  def make_parts
    reader, writer = IO.pipe
    path = File.join(Dir.mktmpdir("abaca-sight"), "redis.sock")
    { reader:, writer:, database: TCPServer.new("127.0.0.1", 0), full: full_server, unix: UNIXServer.new(path) }
  end

  # Its queue holds no further connection.
  def full_server
    server = Socket.new(:INET, :STREAM)
    server.bind(Addrinfo.tcp("127.0.0.1", 0))
    server.listen(0)
    tcp = TCPServer.for_fd(server.fileno)
    server.autoclose = false
    @filler = TCPSocket.new("127.0.0.1", tcp.addr[1])
    tcp
  end

  # The class of what is served.
  def app = self.class.const_defined?(:App, false) ? self.class::App : App

  def run_server(mode, options, parts, page, port_writer)
    options = { services: [["db", parts[:database].addr[1]], ["db", parts[:full].addr[1]]],
                **ServerCase.mode_options(mode), max_body_memory_total: 65_536, stall_report: 0, log_level: :error,
                **options }
    server = Abaca::Server.new(app.new(parts), slot: page[0].claim, **options)
    port_writer.puts(server.add_tcp_listener("127.0.0.1", 0, h2c: true))
    port_writer.close
    trap("TERM") { server.stop }
    server.run
  ensure
    exit!(0)
  end

  # What the requests do.
  class App
    def initialize(parts)
      @parts = parts
      @lock = Queue.new
      Thread.new { loop { @lock << parts[:reader].readpartial(1) } }
    end

    def call(env)
      path = env["PATH_INFO"].delete_prefix("/")
      return [200, {}, ["x" * 30_000_000]] if path == "drain"
      return [200, {}, written_elsewhere] if path == "stream"

      send(path, env) unless path.empty?
      [200, {}, ["ok\n"]]
    end

    private

    def sleep(_env) = Kernel.sleep(0.15)
    def io(_env) = pipe_read
    def lock(_env) = @lock.pop
    def process(_env) = system("sleep 0.15")
    def body(env) = env["rack.input"].read
    def pool(_env) = Abaca.waiting(:pool) { @lock.pop }
    def offload(_env) = Abaca.offload { @lock.pop }
    def db(_env) = TCPSocket.new("127.0.0.1", @parts[:database].addr[1]).read
    def unix(_env) = UNIXSocket.new(@parts[:unix].path).read
    def connect(_env) = TCPSocket.new("127.0.0.1", @parts[:full].addr[1]).read
    def compute(_env) = burn(0.1)
    def hog(_env) = Thread.new { burn(20) }
    def collect(_env) = 10.times { GC.start }

    # A response that a thread writes, when the body's `call` has long returned.
    def written_elsewhere
      ->(stream) { Thread.new { stream.write(@lock.pop) && stream.close } }
    end

    # A pipe of the request's own, whose other end a thread writes to.
    def pipe_read
      IO.pipe do |reader, writer|
        thread = Thread.new { writer.write(@lock.pop) }
        reader.readpartial(1)
        thread.join
      end
    end

    # Keeps Ruby's lock: nothing else of Ruby's runs meanwhile.
    def hang(_env)
      Fiddle::Function.new(Fiddle::Handle::DEFAULT["sleep"], [Fiddle::TYPE_INT], 0, need_gvl: true).call(3)
    end

    def stall(env)
      env["abaca.route"] = "/the/route"
      burn(0.6)
    end

    def spin(_env) = burn(3)

    # By the thread's own clock: what it computes is what counts.
    def burn(seconds)
      limit = Process.clock_gettime(Process::CLOCK_THREAD_CPUTIME_ID) + seconds
      nil while Process.clock_gettime(Process::CLOCK_THREAD_CPUTIME_ID) < limit
    end
  end
end
