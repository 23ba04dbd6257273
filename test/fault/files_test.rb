# frozen_string_literal: true

# also: sanitized

require "test_helper"
require "support/process_case"
require "support/shim"
require "support/file_app"

# Files as bodies when there is trouble: large ones, slow readers, clients that leave, a disk that fails.
class FaultFilesTest < Minitest::Test
  include ProcessCase
  include Shim
  include FileApp

  # A file of `size` bytes, most of them in no block of the disk, and the command that serves it.
  def serve(size, head: "")
    File.open(File.join(@directory, "file"), "wb") do |file|
      file.write(head)
      file.truncate(size)
    end
    # A spare loop would be made at any time, and keep descriptors of its own.
    run_abaca(FILE, config: "spare_loops 0")
  end

  # Reads `count` bytes and yields each piece.
  def read_bytes(client, count)
    while count.positive?
      piece = client.read_some([count, 1 << 20].min) or flunk "#{count} bytes are missing"
      yield piece
      count -= piece.bytesize
    end
  end

  # Reads a head; returns it.
  def read_head(client)
    head = String.new(encoding: Encoding::BINARY)
    read_bytes(client, 1) { |byte| head << byte } until head.end_with?("\r\n\r\n")
    head
  end

  # Its length has more than 32 bits.
  def test_a_file_above_four_gigabytes
    size = (1 << 32) + 100_000
    client = connect(serve(size, head: "first").port)
    head = read_head(client.write(GET))
    assert_match(/^content-length: #{size}\r$/i, head)
    bytes = String.new(encoding: Encoding::BINARY)
    read_bytes(client, 10_000_000) { |piece| bytes << piece }
    assert bytes.start_with?("first\0\0")
  end

  def test_slow_readers_cost_no_memory
    command = serve(200_000_000)
    clients = Array.new(20) { connect(command.port, receive_buffer: 4_096) }
    clients.first.call(HELLO)
    before = command.resident
    clients.each { |client| read_head(client.write(GET)) }
    20.times { clients.each { |client| read_bytes(client, 20_000) { nil } } }
    assert_operator command.resident - before, :<, 4_000_000
  end

  def test_a_thousand_clients_that_leave
    command = serve(50_000_000)
    connect(command.port).call(HELLO)
    before = command.descriptors
    1_000.times do |nth|
      client = Wire::Client.new(command.port, receive_buffer: 4_096)
      client.write(GET)
      client.read_some(100) if nth % 3 == 1
      nth.even? ? client.reset : client.close
    end
    assert eventually { command.descriptors <= before }, "#{command.descriptors} descriptors, #{before} before"
    assert_equal "hello", connect(command.port).call(HELLO).body
  end

  # The client gets what could be read, and sees that it is not all.
  def test_a_disk_that_fails
    with_shim("bad_disk") do
      client = connect(serve(10_000_000, head: "x" * 100_000).port)
      error = assert_raises(Wire::Malformed) { client.call(GET) }
      assert_equal "body has 65536 of 10000000 bytes", error.message
      assert_equal "hello", connect(@commands.last.port).call(HELLO).body
    end
  end
end
