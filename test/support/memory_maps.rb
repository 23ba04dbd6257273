# frozen_string_literal: true

require "fiddle"

# The memory maps that the kernel allows a process (vm.max_map_count), of which each fiber's stack takes two.
module MemoryMaps
  PAGE = 4096
  NONE = 0
  READ = 1
  PRIVATE_ANONYMOUS = 0x22

  # Takes all maps but about `leave`, without memory: every other page of a range is protected in
  # another way.
  def self.take_all_but(leave)
    pages = 2 * Integer(File.read("/proc/sys/vm/max_map_count"))
    range = function("mmap", 6).call(0, pages * PAGE, NONE, PRIVATE_ANONYMOUS, -1, 0)
    protect = function("mprotect", 3)
    page = 1
    page += 2 while page < pages && protect.call(range + (page * PAGE), PAGE, READ).zero?
    (leave / 2).times { protect.call(range + ((page -= 2) * PAGE), PAGE, NONE) }
  end

  def self.function(name, count)
    types = Array.new(count) { Fiddle::TYPE_LONG }
    Fiddle::Function.new(Fiddle::Handle::DEFAULT[name], types, Fiddle::TYPE_LONG)
  end
  private_class_method :function
end
