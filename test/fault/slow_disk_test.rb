# frozen_string_literal: true

require "test_helper"
require "support/process_case"
require "support/shim"
require "support/file_app"

# A file that is not in memory, on a disk that takes its time: nobody but its own client waits for it.
class FaultSlowDiskTest < Minitest::Test
  include ProcessCase
  include Shim
  include FileApp

  CONTENT = Random.new(1).bytes(1_300_000).freeze
  MODES = ["mode :fiber", "mode :thread"].freeze

  # The command with these settings, while the disk does not answer.
  def serve(config)
    File.binwrite(path("file"), CONTENT)
    FileUtils.rm_f([path("gate"), path("asked")])
    with_shim("slow_disk") { run_abaca(FILE, config: "#{config}\nshutdown_timeout 0.2") }
  end

  def path(name)
    File.join(@directory, name)
  end

  # Waits until somebody waits for the disk.
  def await_read
    assert eventually { File.exist?(path("asked")) }, "nobody reads the file"
  end

  def test_others_are_served_meanwhile
    MODES.each do |mode|
      command = serve(mode)
      readers = Array.new(8) { connect(command.port).write(GET) } # more than there are threads
      await_read
      3.times { assert_equal "hello", connect(command.port).call(HELLO).body, mode }
      File.write(path("gate"), "")
      readers.each { |reader| assert_equal CONTENT, reader.read.body, mode }
      assert_equal "hello", readers.first.call(HELLO).body, mode
    end
  end

  # Its clients leave, and the threads that read for them are still there.
  def test_others_are_served_when_the_readers_have_gone
    command = serve("spare_loops 0") # which would be made at any time, and keep descriptors of its own
    client = connect(command.port)
    client.call(HELLO)
    before = command.descriptors
    readers = Array.new(8) { connect(command.port).write(GET) }
    await_read
    readers.each(&:reset)
    assert_equal "hello", client.call(HELLO).body
    File.write(path("gate"), "")
    assert_equal CONTENT, client.call(GET).body
    assert eventually { command.descriptors <= before }, "descriptors are left"
  end

  def test_the_server_stops_while_the_disk_does_not_answer
    MODES.each do |mode|
      command = serve(mode)
      reader = connect(command.port).write(GET)
      await_read
      command.signal(:TERM)
      assert_predicate command.wait, :success?, "#{mode}: #{command.text}"
      assert_raises(Wire::Malformed, mode) { reader.read }
    end
  end
end
