# frozen_string_literal: true

# Counts the objects that an operation makes once it is warm.
module ObjectCounts
  # @param count [Integer] turns of the block, before and while objects are counted
  # @return [Float] objects for each turn
  def objects(count = 300, &block)
    count.times(&block)
    GC.disable
    before = GC.stat(:total_allocated_objects)
    count.times(&block)
    (GC.stat(:total_allocated_objects) - before).fdiv(count)
  ensure
    GC.enable
  end
end
