# frozen_string_literal: true

# Loaded into every Ruby that runs under AddressSanitizer. Its allocator takes no notice of fork: what another thread
# has locked at that moment stays locked in the child, which then hangs in its first malloc. So the other threads have
# to be asleep, as far as that can be seen from here: several times in a row. It is not waited for long, since the loop
# stands still meanwhile.
module QuietFork
  PATIENCE = 2.0 # seconds
  LOOKS = 4

  def _fork
    # A fiber's scheduler hears nothing of it.
    Fiber.new(blocking: true) { QuietFork.wait }.resume
    super
  end

  def self.wait
    limit = clock + PATIENCE
    nil until Array.new(LOOKS) { alone? }.all? || clock > limit
  end

  def self.clock = Process.clock_gettime(Process::CLOCK_MONOTONIC)
  private_class_method :clock

  # @return [Boolean] whether no other thread of the process runs
  def self.alone?
    running = Dir.children("/proc/self/task").count do |task|
      File.read("/proc/self/task/#{task}/stat").match?(/\) [RD] \d+/)
    rescue SystemCallError
      false # it has ended meanwhile
    end
    running <= 1
  end
end
Process.singleton_class.prepend(QuietFork)
