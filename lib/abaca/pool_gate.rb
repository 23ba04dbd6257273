# frozen_string_literal: true

module Abaca
  # The gate of a connection pool of the app: every checkout passes through here (lib/abaca/compat/ has an adapter for
  # each gem).
  #
  # Pools raise after a timeout. A server with fibers starts many more requests than a pool has connections, so most
  # of them would fail. Here they wait in turn, limited only by the request's own deadline, and no more of them are in
  # the pool's queue than it has connections. The running servers learn how many wait, and of which routes, and start
  # no further requests of these meanwhile (ext/abaca/engine/hold.h).
  #
  # A request waits here once. For a second connection it waits in the pool itself, ahead of requests that have not
  # started: finishing comes before starting. Code that belongs to no request, such as a job's thread, does so too.
  #
  # Where a server has a slot of the page, each checkout is counted there, for /metrics (docs/metrics.md).
  class PoolGate
    # What pools raise when they give up.
    TIMEOUTS = %w[ActiveRecord::ConnectionTimeoutError ConnectionPool::TimeoutError Sequel::PoolTimeout].freeze
    NOTHING = [0, 0, 0].freeze
    private_constant :TIMEOUTS, :NOTHING

    @engines = [].freeze
    @tables = [].freeze
    @lock = Mutex.new
    @last_id = 0
    @gates = ObjectSpace::WeakMap.new # those of pools that are in use

    class << self
      # @return [Array<Engine>] the engines that run in this process
      attr_reader :engines

      # @return [Page::Pools, nil] where checkouts are counted: with several servers, in the slot of the last
      attr_reader :table

      # @param slot [Page::Slot, nil] the engine's
      # @yield while the engine runs
      def attach(engine, slot = nil)
        table = slot && Page::Pools.new(slot)
        change(@engines + [engine], @tables + [table].compact)
        yield
      ensure
        change(@engines - [engine], @tables - [table])
        table&.close
      end

      # The gate of a pool, which keeps it.
      #
      # @param pool [Object] a pool
      # @param size [Symbol] the method that returns its number of places, nil for unlimited
      # @param kind [#title, #usage, nil] what the gem's adapter knows of a pool: its name, and how many connections are
      #   used and idle, without a wait for a lock; nil: neither is known
      # @return [PoolGate]
      def of(pool, size, kind = nil)
        @lock.synchronize do
          pool.instance_variable_get(:@abaca_gate) ||
            pool.instance_variable_set(:@abaca_gate, new(pool, size, @last_id += 1, kind))
                .tap { |gate| @gates[gate] = true }
        end
      end

      # Writes into the page what pools have now. To be called each second; waits for nobody.
      #
      # @return [nil]
      def show
        table = @table or return
        found = Hash.new(NOTHING)
        @lock.synchronize { @gates.keys }.each do |gate|
          number, *usage = gate.usage_in(table)
          found[number] = found[number].zip(usage).map(&:sum) if number
        end
        table.size.times { |number| table.show(number, *found[number]) }
        nil
      end

      # @return [Array<Hash{Symbol => Object}>] the pools of this process: their places, those in use as far as the pool
      #   says so, and who waits
      def figures = @lock.synchronize { @gates.keys }.map(&:figures).sort_by { |row| row[:id] }

      private

      def change(engines, tables)
        @lock.synchronize do
          @engines = engines.freeze
          @tables = tables.freeze
          @table = tables.last
        end
      end
    end

    # A waiter in line.
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

    def initialize(pool, size, id, kind)
      @pool = pool
      @size = size
      @id = id
      @kind = kind
      @lock = Mutex.new
      @process = Process.pid
      clear
    end

    # Takes a place of the pool.
    #
    # @param waits [Boolean] whether it may wait here: not with an explicit timeout
    # @yield in turn, to the pool itself
    # @return [Object] what the block returns
    def pass(waits: true)
      table = self.class.table
      number = table.equal?(@table) ? @number : count_in(table)
      Abaca.waiting(:pool) do
        begun = table.enter(number) if number
        enter(waits)
        begin
          got = yield
        ensure
          leave
        end
      rescue StandardError => e
        table.time_out(number) if number && TIMEOUTS.include?(e.class.name)
        raise
      ensure
        table.leave(number, begun, got) if begun
      end
    end

    # What #show adds up, or nil where checkouts are not counted.
    #
    # @param table [Page::Pools]
    # @return [Array<Integer>, nil] the pool's number there, its places (0: any number), those that are used, and those
    #   that are idle
    def usage_in(table)
      return unless @number && @table.equal?(table)

      @usage = look || @usage
      [@number, *@usage]
    end

    # @return [Hash{Symbol => Object}]
    def figures
      size = @pool.public_send(@size)
      here = @lock.synchronize { forked? ? 0 : @line.size + @inside }
      { id: @id, pool: name, size:, **in_use, waiting: [here, waiting_inside].max }
    end

    private

    # From now on, checkouts are counted there. Returns the pool's number, or nil: they are not.
    def count_in(table)
      @usage = NOTHING
      @number = table&.number(name)
      @table = table # the last: who finds it takes the number
      @number
    end

    # Asked on a thread that must not wait. What an app has made of its pool may raise.
    def look
      used, idle = @kind&.usage(@pool)
      [@pool.public_send(@size) || 0, used, idle] if used
    rescue StandardError
      nil
    end

    def name = [@kind&.title(@pool) || @pool.class.name].flatten.compact.join(" ")

    def in_use
      return @pool.stat.slice(:busy, :idle, :dead) if @pool.respond_to?(:stat)

      used, idle = @kind&.usage(@pool)
      { busy: used, idle: }.compact
    end

    # Those that have passed, and wait all the same: for a second connection, or by code that belongs to no request.
    def waiting_inside
      return @pool.stat.fetch(:waiting, 0) if @pool.respond_to?(:stat)

      @pool.respond_to?(:num_waiting) ? @pool.num_waiting : 0
    end

    def clear
      @inside = 0 # in the pool, where they wait if it has no place
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

    # Those inside have stayed in the parent.
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
        @inside += 1 # for it, so that no other comes first
        ticket.call
      end
    end

    # One alone makes no others wait.
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
