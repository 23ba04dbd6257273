# frozen_string_literal: true

module Abaca
  # The way into a pool of the app's, of connections to a database for instance: what comes to take one passes
  # through here (lib/abaca/compat/, an adapter for each gem).
  #
  # Pools give up on those that wait for long. A server with fibers starts many more requests than a pool has
  # places, so most of them would fail that way. Here they wait in turn, without a limit but the request's own, and no
  # more of them are in the pool's queue than it has places. The running servers are told how many wait, and of which
  # routes: they do not start further requests of these meanwhile (ext/abaca/engine/hold.h).
  #
  # A request waits here once. What it waits for later on, in its middle, it waits for in the pool, before those that
  # have not begun: to finish comes before to start. So does what belongs to no request, a thread of a job's say.
  class PoolGate
    @engines = [].freeze
    @lock = Mutex.new
    @last_id = 0

    class << self
      # @return [Array<Engine>] those that run in this process
      attr_reader :engines

      # @yield while the engine runs
      def attach(engine)
        @lock.synchronize { @engines = [*@engines, engine].freeze }
        yield
      ensure
        @lock.synchronize { @engines = (@engines - [engine]).freeze }
      end

      # The gate of a pool, which keeps it.
      #
      # @param pool [Object] a pool
      # @param size [Symbol] its method that says how many places it has, nil for as many as are wanted
      # @return [PoolGate]
      def of(pool, size)
        @lock.synchronize do
          pool.instance_variable_get(:@abaca_gate) ||
            pool.instance_variable_set(:@abaca_gate, new(pool, size, @last_id += 1))
        end
      end
    end

    # What waits here for its turn.
    class Ticket # :nodoc:
      attr_writer :called

      def initialize = @condition = ConditionVariable.new

      def called? = @called

      def wait(lock) = @condition.wait(lock)

      def call
        @called = true
        @condition.signal
      end
    end
    private_constant :Ticket

    def initialize(pool, size, id)
      @pool = pool
      @size = size
      @id = id
      @lock = Mutex.new
      @process = Process.pid
      clear
    end

    # Takes a place of the pool.
    #
    # @param waits [Boolean] whether it may wait here: not what has a time limit of its own
    # @yield in turn, to the pool itself
    # @return [Object] what the block returns
    def pass(waits: true)
      enter(waits)
      begin
        yield
      ensure
        leave
      end
    end

    private

    def clear
      @inside = 0 # in the pool: what is there while others run waits for a place
      @line = []
      @told = 0
    end

    def enter(waits)
      @lock.synchronize do
        @inside.zero? && @line.empty? ? @inside = 1 : enter_crowd(waits)
      end
    end

    def enter_crowd(waits)
      clear if forked?
      first = note
      size = @pool.public_send(@size)
      if first && waits && size && (@inside >= size || @line.any?)
        await_turn
      else
        @inside += 1
        tell
      end
    end

    # What was inside has stayed in the parent.
    def forked?
      forked = @process != Process.pid
      @process = Process.pid
      forked
    end

    # @return [Boolean] whether a request begins to wait, for the first time
    def note
      self.class.engines.each do |engine|
        first = engine.pool_wait(@id)
        return first unless first.nil?
      end
      false
    end

    def await_turn
      @line << (ticket = Ticket.new)
      tell
      begin
        ticket.wait(@lock) until ticket.called?
        entered = true
      ensure
        give_up(ticket) unless entered
      end
    end

    # Something was raised in the fiber meanwhile.
    def give_up(ticket)
      ticket.called? ? go : @line.delete(ticket)
      tell
    end

    def leave
      @lock.synchronize do
        go
        tell if @told.positive?
      end
    end

    def go
      @inside -= 1
      return if @line.empty?

      size = @pool.public_send(@size) || @line.size
      while @inside < size && (ticket = @line.shift)
        @inside += 1 # for it, lest another comes before
        ticket.call
      end
    end

    # One alone is nothing that others would have to wait for.
    def tell
      waiters = @inside + @line.size
      return if waiters == @told || (waiters < 2 && @told.zero?)

      size = @pool.public_send(@size)
      return unless size

      @told = waiters
      self.class.engines.each { |engine| engine.pool_load(@id, size, waiters) }
    end
  end
  private_constant :PoolGate
end
