# frozen_string_literal: true

# Turns on a machine that several runs of tests share, by locks on a file that all of them see: the parts of tests run
# beside each other, until one run asks to be alone. Then no part of any run begins, and it starts when those that run
# have ended. A process that dies gives its turn back.
class Turns
  # Names the file; none is needed while nobody has made its folder, since another run would have.
  VARIABLE = "TEST_TURNS"

  # @param path [String, nil] the file; without it everyone runs at once
  def initialize(path = ENV.fetch(VARIABLE, nil))
    @path = path
  end

  # Runs the block beside others.
  def together
    room = locked(".next", File::LOCK_EX) { lock("", File::LOCK_SH) }
    yield
  ensure
    room&.close
  end

  # Runs the block while no other does. It waits for those that run; who comes later waits for it.
  def alone(&block)
    locked(".next", File::LOCK_EX) { locked("", File::LOCK_EX, &block) }
  end

  private

  def locked(suffix, kind)
    file = lock(suffix, kind)
    yield
  ensure
    file&.close
  end

  # Each lock is a file opened anew: one that was opened once has one lock, whoever asks for it.
  def lock(suffix, kind)
    return if @path.nil?

    file = File.new(@path + suffix, File::RDWR | File::CREAT)
    file.flock(kind)
    file
  rescue Errno::ENOENT
    nil
  end
end
