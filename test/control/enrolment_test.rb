# frozen_string_literal: true

require "test_helper"
require "timeout"
require "abaca"
require "abaca/control"

# How processes that serve come to the watch.
class ControlEnrolmentTest < Minitest::Test
  Crew = Abaca::Control::Crew # loaded while there are descriptors

  # Without a free descriptor the kernel drops what was sent: the one that has sent it sees its end, and comes again.
  def test_a_watch_without_descriptors
    found = in_a_child do |enrolment|
      line = enrolment.enrol(3)
      without_descriptors { [enrolment.receive, line.read] } + [enrolment.enrol(3) && enrolment.receive.first(2)]
    end
    assert_equal [nil, "", [3, found.last.last]], found
  end

  # A crew that has met that has the process, as soon as there is room.
  def test_a_crew_without_descriptors
    found = in_a_child do |enrolment|
      enrolment.enrol(0)
      crew = without_descriptors { crew_of(enrolment).tap { sleep 0.05 } }
      line = enrolment.enrol(0)
      here = Abaca::Control::Answer.text(200, "here")
      answers = Thread.new { Abaca::Control::Replies.new(line, nil) { here }.run }
      sleep 0.01 until (answer = crew.ask("x", within: 1).values.first)
      answers.kill.join
      answer.body
    end
    assert_equal "here", found
  end

  private

  # A slot that serves, as Crew looks at it.
  Slot = Struct.new(:index, :pid, :state)
  Slots = Struct.new(:page, :most)

  def crew_of(enrolment)
    Crew.new(enrolment, Slots.new([Slot.new(0, Process.pid, :serving)], 1))
  end

  # Its limits are its own. Returns what the block has.
  def in_a_child
    reader, writer = IO.pipe
    pid = fork do
      writer.write(Marshal.dump(yield(Abaca::Control::Enrolment.new)))
    rescue Exception => e # rubocop:disable Lint/RescueException -- the test shows it
      writer.write(Marshal.dump("#{e.class}: #{e.message}"))
    ensure
      writer.close
      exit!
    end
    writer.close
    Timeout.timeout(10) { Marshal.load(reader.read) } # rubocop:disable Security/MarshalLoad -- its own child's
  ensure
    reader.close
    Process.kill(:KILL, pid)
    Process.wait(pid)
  end

  def without_descriptors
    before = Process.getrlimit(:NOFILE)
    free = File.open(File::NULL, &:fileno)
    Process.setrlimit(:NOFILE, free, before.last)
    yield
  ensure
    Process.setrlimit(:NOFILE, *before)
  end
end
