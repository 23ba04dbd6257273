# frozen_string_literal: true

# Loaded into every Ruby that runs under AddressSanitizer. Its allocator takes no notice of fork: what another thread
# has locked at that moment stays locked in the child, which then hangs in its first malloc. So the other threads have
# to be asleep, as far as that can be seen from here: several times in a row.
module QuietFork
  TRIES = 500
  LOOKS = 4

  def _fork
    # A fiber's scheduler hears nothing of it.
    Fiber.new(blocking: true) { TRIES.times { break if Array.new(LOOKS) { QuietFork.alone? }.all? } }.resume
    super
  end

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
