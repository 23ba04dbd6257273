# frozen_string_literal: true

require "test_helper"
require "abaca"
require "support/certificates"
require "support/http2_clients"

# Clients that people use, over TLS: those of HTTP/2, and what they do with HTTP/1.1 and with sessions.
class TLSClientsTest < Minitest::Test
  include Http2Clients

  def setup
    skip "this build has no TLS" unless Abaca::TLS_LIBRARY
    super
  end

  # The certificate is made when the folder is there.
  def place
    @place ||= begin
      Certificates.new(@directory).make("a", names: ["a.test", "127.0.0.1"])
      "ssl://127.0.0.1:0?cert=a.pem&key=a.key"
    end
  end

  def http2_words = %w[--http2]

  def test_curl_verifies
    words = ["--cacert", File.join(@directory, "ca.pem"), "--resolve", "a.test:#{@port}:127.0.0.1"]
    assert_equal "Hello", run_program("curl", "-sS", *words, "https://a.test:#{@port}/")
  end

  def test_curl_without_http2
    curl = ->(path, *words) { run_program("curl", "-sSk", "--http1.1", "-w", FORMAT, *words, url(path)) }
    assert_equal "Hello\n1.1 200", curl.call("/")
    assert_equal "#{"f" * LARGE}\n1.1 200", curl.call("/file", "--tlsv1.2", "--tls-max", "1.2")
    assert_equal "#{"f" * LARGE}\n1.1 200", curl.call("/echo", "--data-binary", "@#{@directory}/large")
    out = run_program("curl", "-sSk", "-w", FORMAT, "--no-alpn", url("/"))
    assert_equal "Hello\n1.1 200", out
  end

  def test_https_of_node
    answers = JSON.parse(run_program("node", "--input-type=module", "-e", NODE_HTTPS, url("")))
    assert_equal({ "/" => [200, 5], "/large" => [200, LARGE], "/file" => [200, LARGE], "/echo" => [200, LARGE],
                   "sockets" => 1 }, answers)
  end

  NODE_HTTPS = <<~JS.freeze
    import https from "node:https";
    const agent = new https.Agent({ keepAlive: true, maxSockets: 1, rejectUnauthorized: false });
    const answers = {}, sockets = new Set();
    const ask = (path, body) => new Promise((done, failed) => {
      const request = https.request(process.argv[1] + path, { agent, method: body ? "POST" : "GET" }, (response) => {
        let length = 0;
        sockets.add(response.socket);
        response.on("data", (piece) => { length += piece.length; });
        response.on("end", () => { answers[path] = [response.statusCode, length]; done(); });
      });
      request.on("error", failed);
      request.end(body);
    });
    for (const path of ["/", "/large", "/file"]) await ask(path);
    await ask("/echo", Buffer.alloc(#{LARGE}, 97));
    answers.sockets = sockets.size;
    console.log(JSON.stringify(answers));
    agent.destroy();
  JS

  # --- openssl s_client ---

  def test_versions_of_openssl
    assert_match(/^New, TLSv1\.3, Cipher is TLS_/, s_client("-tls1_3"))
    assert_match(/^New, TLSv1\.2, Cipher is ECDHE-ECDSA-AES.*GCM|CHACHA20/, s_client("-tls1_2"))
    assert_match(/Cipher is \(NONE\)|alert/, s_client("-tls1_1", "-cipher", "DEFAULT@SECLEVEL=0", fails: true))
    assert_match(/Cipher is \(NONE\)|alert/, s_client("-tls1_2", "-cipher", "AES128-SHA", fails: true))
    assert_match(/^ALPN protocol: h2$/, s_client("-alpn", "h2,http/1.1", keys: nil))
    assert_match(/no application protocol/, s_client("-alpn", "spdy/1", fails: true))
  end

  def test_sessions_of_openssl
    assert_equal 5, s_client("-tls1_2", "-reconnect").scan(/^Reused, TLSv1\.2/).size
    %w[-tls1_2 -tls1_3].each do |version|
      file = File.join(@directory, "session#{version}")
      assert_match(/^New, /, s_client(version, "-sess_out", file))
      assert_match(/^Reused, /, s_client(version, "-sess_in", file))
    end
  end

  # Data of 0-RTT is refused, and the request is answered behind the handshake.
  def test_early_data_of_openssl
    file = File.join(@directory, "session")
    said = s_client("-tls1_3", "-sess_out", file)
    assert_match(/Max Early Data: 0$/, said)
    early = File.join(@directory, "early")
    File.write(early, REQUEST)
    said = s_client("-tls1_3", "-sess_in", file, "-early_data", early)
    refute_match(/Early data was accepted/, said)
    assert_match(%r{^HTTP/1\.1 200}, said)
  end

  # "R" asks for a renegotiation, which is refused, and the connection goes on; "k" and "K" change keys.
  def test_keys_of_openssl
    said = s_client("-tls1_2", keys: "R\n", fails: true)
    assert_match(/RENEGOTIATING/, said)
    assert_match(/no renegotiation|HTTP/, said)
    %w[k K].each { |key| assert_match(%r{KEYUPDATE.*HTTP/1\.1 200}m, s_client("-tls1_3", keys: "#{key}\n")) }
  end

  # No line begins with a letter that s_client takes as a command where it reads the line alone: C connects anew.
  REQUEST = "GET / HTTP/1.1\r\nHost: a.test\r\nconnection: close\r\n\r\n"
  # What s_client says when it obeys a key.
  COMMAND = /RENEGOTIATING|KEYUPDATE/

  private

  # What it prints. keys: that are typed before the request; nil: nothing is asked; fails: it may
  def s_client(*words, keys: "", fails: false)
    need_program("openssl")
    input = keys ? [*keys.lines, *REQUEST.lines] : []
    Open3.popen2e(*Programs.words("openssl", "s_client", "-connect", "127.0.0.1:#{@port}",
                                  *words)) do |stdin, out, thread|
      said = String.new(encoding: Encoding::BINARY)
      reader = Thread.new { out.each_line { |line| said << line } }
      Waits.eventually { said.match?(/Session-ID-ctx|^---\n.*^---\n|New, |NONE/m) || !thread.alive? }
      input.each do |line|
        before = said.scan(COMMAND).size
        stdin.write(line)
        # A command of its own only if it comes alone.
        Waits.eventually { said.scan(COMMAND).size > before || !thread.alive? } if line.match?(/\A[RkK]\n/)
      rescue Errno::EPIPE
        break
      end
      stdin.close if keys.nil?
      status = thread.value
      reader.join
      assert_predicate status, :success?, said unless fails
      said.force_encoding(Encoding::UTF_8).scrub
    end
  end
end
