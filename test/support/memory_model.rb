# frozen_string_literal: true

# What threads may see of each other's stores on a machine with a weak order of memory: all of it, by trying. A thread
# does what it does in any order that C11 allows it, but for what stands between; the steps of threads mix in any way.
# Stores reach all other threads at once, as arm64 has it. Conditions order nothing: a load may be done before it is
# known whether it counts. A swap is one access; where a processor may tear it, it is written as a load and a store.
class MemoryModel
  # One access: `kind` is :load, :store, :swap (both in one) or :fence; `order` :relaxed, :acquire, :release, :acq_rel
  # or :seq_cst. `value` may be a proc that is called with the thread's registers, those of `uses` at least.
  Step = Struct.new(:kind, :place, :value, :order, :into, :uses, keyword_init: true) do
    def reads? = %i[load swap].include?(kind)
    def writes? = %i[store swap].include?(kind)
    def acquires? = kind != :store && %i[acquire acq_rel seq_cst].include?(order)
    def releases? = kind != :load && %i[release acq_rel seq_cst].include?(order)
  end

  class << self
    def load(into, place, order = :relaxed) = Step.new(kind: :load, place: place, order: order, into: into, uses: [])

    def store(place, value, order = :relaxed, uses: [])
      Step.new(kind: :store, place: place, value: value, order: order, uses: uses)
    end

    def swap(into, place, value, order, uses: [])
      Step.new(kind: :swap, place: place, value: value, order: order, into: into, uses: uses)
    end

    def fence(order) = Step.new(kind: :fence, order: order, uses: [])
  end

  # @param threads [Array<Array<Step>>]
  # @param memory [Hash{Symbol => Integer}] what stands there before, 0 where nothing is said
  def initialize(threads, memory = {})
    @threads = threads.map { |steps| steps.reject { |step| step.kind == :fence } }
    @before = threads.map { |steps| constraints(steps) }
    @memory = memory
  end

  # @return [Array<Hash>] registers and memory of each end that there may be
  def ends
    @seen = {}
    @ends = {}
    go(@threads.map { 0 }, @memory, {})
    @ends.keys
  end

  # The same threads with one order less, each in turn.
  # @return [Array] of [name, MemoryModel]
  def self.weaker(threads, memory = {})
    threads.each_with_index.flat_map do |steps, thread|
      steps.each_index.filter_map do |i|
        step = steps[i]
        next if step.order == :relaxed

        less = step.kind == :fence ? [] : [step.dup.tap { |weak| weak.order = :relaxed }]
        changed = threads.dup
        changed[thread] = steps[0...i] + less + steps[(i + 1)..]
        ["#{step.order} of #{step.kind} #{step.place} in thread #{thread}", new(changed, memory)]
      end
    end
  end

  private

  # For each step but fences, the steps that must be done before it, as a set of bits.
  def constraints(steps)
    places = steps.each_index.reject { |i| steps[i].kind == :fence }
    places.map do |i|
      places.each_with_index.sum { |j, bit| j < i && ordered?(steps, j, i) ? 1 << bit : 0 }
    end
  end

  def ordered?(steps, first, second)
    one, other = steps.values_at(first, second)
    return true if one.place == other.place || one.acquires? || other.releases?
    return true if other.uses.include?(one.into) && one.into
    return true if one.order == :seq_cst && other.order == :seq_cst

    steps[(first + 1)...second].any? { |fence| fence.kind == :fence && fenced?(one, fence, other) }
  end

  def fenced?(one, fence, other)
    return true if fence.order == :seq_cst

    (fence.order == :release && other.writes?) || (fence.order == :acquire && one.reads?)
  end

  def go(done, memory, registers)
    state = [done, memory, registers]
    return if @seen[state]

    @seen[state] = true
    moved = false
    @threads.each_index do |thread|
      @threads[thread].each_index do |i|
        next if done[thread][i] == 1 || @before[thread][i].anybits?(~done[thread])

        moved = true
        later = done.dup
        later[thread] |= 1 << i
        go(later, *apply(@threads[thread][i], memory, registers))
      end
    end
    @ends[registers.merge(memory)] = true unless moved
  end

  def apply(step, memory, registers)
    registers = registers.merge(step.into => memory.fetch(step.place, 0)) if step.reads?
    return [memory, registers] unless step.writes?

    value = step.value.respond_to?(:call) ? step.value.call(registers) : step.value
    [memory.merge(step.place => value), registers]
  end
end
