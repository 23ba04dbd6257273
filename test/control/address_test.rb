# frozen_string_literal: true

require "test_helper"
require "abaca"
require "abaca/control"

# Where a control server may be.
class ControlAddressTest < Minitest::Test
  Address = Abaca::Control::Address

  def test_urls
    urls = ["unix:///run/a b.sock", "unix://@name", "tcp://127.0.0.1:9293", "tcp://[::1]:0", "auto"]
    assert_equal(urls, urls.map { |url| Address.parse(url).to_s })
    assert_equal "/run/a b.sock", Address.parse("unix:///run/a%20b.sock").path
    assert_equal "unix:///run/a.sock", Address.parse("unix:/run/a.sock").to_s
    assert_equal ["::1", 0], [Address.parse("tcp://[::1]:0").host, Address.parse("tcp://[::1]:0").port]
  end

  def test_permissions_of_a_unix_socket
    assert_equal 0o600, Address.parse("unix:///a").mode
    assert_equal 0o660, Address.parse("unix:///a?mode=660").mode
    assert_equal 0o770, Address.parse("unix:///a?umask=0007").mode
  end

  def test_what_is_on_this_machine_only
    local = %w[unix:///a auto tcp://127.0.0.1:1 tcp://127.9.9.9:1 tcp://[::1]:1 tcp://localhost:1]
    assert(local.all? { |url| Address.parse(url).local? })
    refute(%w[tcp://0.0.0.0:1 tcp://[::]:1 tcp://10.0.0.1:1 tcp://a.test:1].any? { |url| Address.parse(url).local? })
  end

  def test_what_is_none
    {
      "ssl://127.0.0.1:9293" => /no TLS; use a unix socket/, "http://a:1" => /is needed/, "tcp://a" => /is needed/,
      "tcp://a:65536" => /is needed/, "unix://" => /is needed/, "unix:a" => /is needed/, "" => /is needed/,
      "unix:///a?umask=9" => /not an octal number/, "unix:///a?mode=1777" => /not an octal number/,
      "unix:///a?backlog=1" => /unknown parameter backlog/
    }.each do |url, message|
      assert_match message, assert_raises(Abaca::ConfigError, url) { Address.parse(url) }.message
    end
  end
end
