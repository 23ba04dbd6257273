# frozen_string_literal: true

require "test_helper"
require "abaca"

# Lines with descriptors, from one program to another.
class MessagesTest < Minitest::Test
  Messages = Abaca::Launcher::Messages

  def setup
    @ours, socket = Messages.pair
    @theirs = Messages.new(socket)
  end

  def teardown = [@ours, @theirs].each(&:close)

  # They may come in one piece, and each has its own.
  def test_lines_and_descriptors
    pipes = Array.new(3) { IO.pipe }
    writers = pipes.map(&:last)
    @theirs.put("first", *writers.first(2))
    @theirs.put("a second one", writers.last)
    @theirs.put("ready")
    found = Array.new(3) { @ours.receive }
    assert_equal [["first", 2], ["a second one", 1], ["ready", 0]], found.map { |line, ios| [line, ios.size] }
    found.flat_map(&:last).each_with_index { |io, i| io.tap { io.write(i.to_s) }.close }
    writers.each(&:close)
    assert_equal %w[0 1 2], pipes.map { |reader, _| reader.read }
  ensure
    pipes.flatten.each(&:close)
  end

  def test_whether_one_is_there
    refute @ours.ready?(0)
    @theirs.put("one")
    @theirs.put("two")
    2.times do
      assert @ours.ready?(1)
      @ours.receive
    end
    refute @ours.ready?(0)
  end

  # A line that breaks off is none.
  def test_the_end
    @theirs.put("x" * 10_000)
    IO.for_fd(@theirs.fileno, "w", autoclose: false).syswrite("half")
    @theirs.close
    assert_equal 10_000, @ours.receive.first.size
    assert_nil @ours.receive
    assert_raises(Errno::EPIPE) { @ours.put("done") }
  end
end
