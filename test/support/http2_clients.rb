# frozen_string_literal: true

require "json"
require_relative "process_case"
require_relative "programs"

# Clients that people use, against a server as the command runs it: each asks for all that HTTP/2 can carry. Who
# includes it says where the server listens (#place), and how curl is told to speak HTTP/2 (#http2_words).
module Http2Clients
  include ProcessCase
  include Programs

  LARGE = 300_000
  # What curl says behind the content.
  FORMAT = ["\n", "{http_version} ", "{http_code}"].join("%")
  APP = <<~RUBY.freeze
    type = { "content-type" => "text/plain" }
    file = Struct.new(:to_path)
    # Frames of WebSocket, short ones: each comes back in capitals, until one says that it is the last.
    socket = lambda do |stream|
      while (head = stream.read(6))
        code, length = head.unpack("C2")
        break stream.write("\\x88\\x00") if code == 0x88

        text = stream.read(length & 0x7f).upcase
        stream.write([0x81, text.bytesize].pack("C2") + text)
      end
    ensure
      stream.close
    end
    run lambda { |env|
      case env["PATH_INFO"]
      when "/large" then [200, type.dup, ["x" * #{LARGE}]]
      when "/file" then [200, type.dup, file.new(File.expand_path("large"))]
      when "/echo" then [200, type.dup, [env["rack.input"].read]]
      when "/trailers" then [200, type.merge("abaca.trailers" => { "x-sum" => "7" }), ["body"]]
      when "/hints"
        env["rack.early_hints"].call("link" => "</a.css>; rel=preload")
        [200, type.dup, ["hints"]]
      when "/none" then [204, {}, []]
      when "/socket" then [200, { "rack.protocol" => env["rack.protocol"].first }, socket]
      else [200, type.dup, ["Hello"]]
      end
    }
  RUBY

  def setup
    super
    File.write(File.join(@directory, "config.ru"), APP)
    File.write(File.join(@directory, "large"), "f" * LARGE)
    @port = start_abaca("-b", place, "-C", "-", "--early-hints", "config.ru").port
  end

  def test_curl
    curl = lambda do |path, *words|
      run_program("curl", "-sSk", *http2_words, "-w", FORMAT, *words, url(path))
    end
    assert_equal "Hello\n2 200", curl.call("/")
    assert_equal "#{"x" * LARGE}\n2 200", curl.call("/large")
    assert_equal "#{"f" * LARGE}\n2 200", curl.call("/file")
    assert_equal "#{"f" * LARGE}\n2 200", curl.call("/echo", "--data-binary", "@#{@directory}/large")
    assert_equal "\n2 204", curl.call("/none")
    assert_match(%r{\AHTTP/2 200.*content-length: #{LARGE}\r}m, curl.call("/large", "-I"))
    assert_match(%r{\AHTTP/2 103 \r\nlink: .*HTTP/2 200}m, curl.call("/hints", "-i"))
  end

  def test_nghttp
    out = run_program("nghttp", "-v", url("/trailers"))
    assert_match(/\(stream_id=\d+\) trailer: x-sum/, out)
    assert_match(/\(stream_id=\d+\) x-sum: 7/, out)
    assert_match(/\(stream_id=\d+\) :status: 103/, run_program("nghttp", "-v", url("/hints")))
  end

  def test_h2load
    out = run_program("h2load", "-n600", "-c6", "-m32", "-d", File.join(@directory, "large"), url("/echo"))
    assert_match(/ 600 succeeded, 0 failed, 0 errored, 0 timeout$/, out)
    assert_match(/^status codes: 600 2xx/, out)
  end

  def test_node
    answers = JSON.parse(run_program("node", "--input-type=module", "-e", NODE, url("")))
    assert_equal({
                   "/" => [200, 5], "/large" => [200, LARGE], "/file" => [200, LARGE], "/none" => [204, 0],
                   "/echo" => [200, LARGE], "/trailers" => [200, 4, { "x-sum" => "7" }], "/hints" => [200, 5, 103],
                   "/socket" => [200, "HELLO"]
                 }, answers)
  end

  # hyper-h2 takes the protocol more strictly than others: every frame is checked against the state of its stream.
  def test_h2_of_python
    missing("python3-h2") unless system(*Programs.words("/usr/bin/python3", "-c", "import h2"), err: File::NULL)
    answers = JSON.parse(run_program("/usr/bin/python3", "-c", PYTHON, scheme, @port.to_s))
    assert_equal({
                   "/" => [["200"], 5, []], "/large" => [["200"], LARGE, []], "/none" => [["204"], 0, []],
                   "/echo" => [["200"], 20_000, []], "/trailers" => [["200"], 4, [%w[x-sum 7]]],
                   "/hints" => [%w[103 200], 5, []]
                 }, answers)
  end

  NODE = <<~JS.freeze
    import http2 from "node:http2";
    const client = http2.connect(process.argv[1], { rejectUnauthorized: false });
    const answers = {};
    const ask = (path, body) => new Promise((done, failed) => {
      const request = client.request({ ":path": path, ":method": body ? "POST" : "GET" });
      let status, length = 0, more = [];
      request.on("headers", (head) => more.push(head[":status"]));
      request.on("response", (head) => { status = head[":status"]; });
      request.on("trailers", (fields) => more.push({ ...fields }));
      request.on("data", (piece) => { length += piece.length; });
      request.on("end", () => { answers[path] = [status, length, ...more]; done(); });
      request.on("error", failed);
      request.end(body);
    });
    const talk = () => new Promise((done, failed) => {
      const socket = client.request({ ":method": "CONNECT", ":protocol": "websocket", ":path": "/socket" });
      let status, text;
      socket.on("response", (head) => {
        status = head[":status"];
        socket.write(Buffer.from([0x81, 0x85, 0, 0, 0, 0, ...Buffer.from("hello")]));
      });
      socket.on("data", (frame) => {
        if (frame[0] === 0x88) return;
        text = frame.subarray(2).toString();
        socket.write(Buffer.from([0x88, 0x80, 0, 0, 0, 0]));
      });
      socket.on("end", () => { answers["/socket"] = [status, text]; socket.end(); done(); });
      socket.on("error", failed);
    });
    await new Promise((done) => client.once("remoteSettings", done));
    await Promise.all(["/", "/large", "/file", "/none", "/trailers", "/hints"].map((path) => ask(path)));
    await ask("/echo", Buffer.alloc(#{LARGE}, 97));
    await talk();
    console.log(JSON.stringify(answers));
    client.close();
  JS

  PYTHON = <<~PYTHON
    import json, socket, ssl, sys
    import h2.config, h2.connection, h2.events as events
    peer = socket.create_connection(("127.0.0.1", int(sys.argv[2])))
    if sys.argv[1] == "https":
        context = ssl._create_unverified_context()
        context.set_alpn_protocols(["h2"])
        peer = context.wrap_socket(peer)
        assert peer.selected_alpn_protocol() == "h2"
    client = h2.connection.H2Connection(h2.config.H2Configuration(client_side=True, header_encoding="utf-8"))
    client.initiate_connection()
    answers, left = {}, set()
    for stream, path in zip(range(1, 100, 2), ["/", "/large", "/none", "/trailers", "/hints", "/echo"]):
        body = path == "/echo"
        client.send_headers(stream, [(":method", "POST" if body else "GET"), (":path", path), (":authority", "a.test"),
                                     (":scheme", sys.argv[1])], end_stream=not body)
        if body:
            client.send_data(stream, b"z" * 10000)
            client.send_data(stream, b"z" * 10000, end_stream=True)
        answers[stream] = [path, [], 0, []]
        left.add(stream)
    peer.sendall(client.data_to_send())
    while left:
        data = peer.recv(65536)
        if not data:
            break
        for event in client.receive_data(data):
            if isinstance(event, (events.ResponseReceived, events.InformationalResponseReceived)):
                answers[event.stream_id][1].append(dict(event.headers)[":status"])
            elif isinstance(event, events.TrailersReceived):
                answers[event.stream_id][3] = event.headers
            elif isinstance(event, events.DataReceived):
                answers[event.stream_id][2] += len(event.data)
                client.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
            elif isinstance(event, events.StreamEnded):
                left.discard(event.stream_id)
        peer.sendall(client.data_to_send())
    print(json.dumps({path: rest for path, *rest in answers.values()}))
  PYTHON

  private

  def url(path) = "#{scheme}://127.0.0.1:#{@port}#{path}"

  def scheme = place.start_with?("ssl") ? "https" : "http"
end
