# frozen_string_literal: true

# Counts the objects that an operation makes once it is warm.
module ObjectCounts
  # Ruby counts the objects of all threads. The other threads of a test soon come to rest, so the least of three
  # counts is that of the block itself.
  #
  # @param count [Integer] turns of the block, before and each time that objects are counted
  # @return [Float] objects for each turn
  def objects(count = 300, &block)
    count.times(&block)
    least(count, :total_allocated_objects, &block)
  end

  # The least growth of a number of GC.stat while the block runs `count` times, for each of them.
  def least(count, key, &block)
    GC.disable
    Array.new(3) do
      before = GC.stat(key)
      count.times(&block)
      (GC.stat(key) - before).fdiv(count)
    end.min
  ensure
    GC.enable
  end
end
