# frozen_string_literal: true

require "fiddle"

# The memory maps that the kernel allows a process (vm.max_map_count), of which each fiber's stack takes two.
module MemoryMaps
  PAGE = 4096
  NONE = 0
  READ = 1
  PRIVATE_ANONYMOUS = 0x22

  # Takes all maps except about `leave`, without memory: every other page of a range has another protection.
  def self.take_all_but(leave)
    pages = 2 * Integer(File.read("/proc/sys/vm/max_map_count"))
    @range = function("mmap", 6).call(0, pages * PAGE, NONE, PRIVATE_ANONYMOUS, -1, 0)
    @protect = function("mprotect", 3)
    @taken = 0
    @taken += 1 while @taken * 2 < pages && protect(@taken, READ)
    give_back(leave)
  end

  def self.give_back(count)
    (count / 2).times { protect(@taken -= 1, NONE) }
  end

  def self.protect(number, access) = @protect.call(@range + (((number * 2) + 1) * PAGE), PAGE, access).zero?
  private_class_method :protect

  def self.function(name, count)
    types = Array.new(count) { Fiddle::TYPE_LONG }
    Fiddle::Function.new(Fiddle::Handle::DEFAULT[name], types, Fiddle::TYPE_LONG)
  end
  private_class_method :function
end
