# frozen_string_literal: true

require_relative "errors"

# Abaca.offload: runs work that would block a fiber's thread on another thread.
module Abaca
  # Runs the block on its own thread, for which the calling fiber waits while other fibers continue. Use it for code
  # that computes for long, or blocks without the fiber scheduler's knowledge.
  #
  #   digest = Abaca.offload { Digest::SHA256.file(path).hexdigest }
  #
  # Where no other fiber would run meanwhile, the block runs in place: on a thread of mode :thread, on a blocking
  # fiber, and without a fiber scheduler. So does a block inside another one, even if that has its own scheduler: a
  # block with a place never waits for another. It works under every scheduler, not only Abaca's.
  #
  # Ruby's global lock still applies: two blocks that compute take turns. At most 16 blocks run at once in a process;
  # the others wait for one to end. On its thread the block has neither the fiber's locals nor its scheduler, nor can
  # it leave by `break`, `return` or `throw`, as with Thread.new.
  #
  # When an exception is raised in the waiting fiber (its request's deadline, a Timeout), the block is ended too,
  # where it blocks next: by the same exception, if it is a Cancelled, or else by one that `rescue => e` does not
  # catch. The fiber continues with its exception when the block has ended, so no block outlives its caller.
  #
  # @yieldreturn [Object]
  # @return [Object] what the block returns
  # @raise what the block raises; ArgumentError without one; Error when its thread was killed
  def self.offload(&block)
    raise ArgumentError, "offload: a block is needed" unless block

    Fiber.current_scheduler && !Offloaded.here? ? Offloaded.run(block) : yield
  end

  # A block of Abaca.offload on its thread.
  class Offloaded # :nodoc:
    # Ends the block of a fiber in which a foreign exception was raised.
    class Interrupted < Cancelled; end

    # A computation is not interrupted. All other exceptions come as on any thread: a Timeout in the block, for
    # example.
    MASK = { Cancelled => :on_blocking }.freeze

    # More threads than this mostly compete for the lock.
    MOST = 16

    # The thread variable that marks its threads.
    HERE = :abaca_offload

    @lock = Mutex.new
    @places = nil
    @process = nil

    class << self
      # @param block [Proc]
      # @return [Object] its result
      def run(block)
        places = self.places
        places.push(true)
        begin
          Engine.waiting(:offload) { new(block).result }
        ensure
          places.pop
        end
      end

      # @return [Integer] how many blocks run, or wait for a place
      def count = @process == Process.pid ? @places.size + @places.num_waiting : 0

      # @return [Boolean] whether this is the thread of an offloaded block
      def here? = Thread.current.thread_variable?(HERE)

      private

      # A forked child has none of its parent's threads.
      def places
        @lock.synchronize do
          @places = Thread::SizedQueue.new(MOST) unless @process == Process.pid
          @process = Process.pid
          @places
        end
      end
    end

    def initialize(block)
      @block = block
    end

    def result
      thread = nil
      # It begins with the mask.
      Thread.handle_interrupt(MASK) { thread = Thread.new { call } }
      await(thread)
      raise @interruption || @error if @interruption || @error
      raise Error, "the thread of an offloaded block was killed" unless @done

      @result
    ensure
      thread&.kill # it has ended, unless this fiber is being killed
    end

    private

    def call
      Thread.current.name = "abaca offload"
      Thread.current.thread_variable_set(HERE, true)
      @result = @block.call
      @done = true
    rescue Exception => e # rubocop:disable Lint/RescueException -- it belongs to the fiber
      @error = e
    end

    def await(thread)
      thread.join
    rescue Exception => e # rubocop:disable Lint/RescueException -- it is raised again when the block has ended
      @interruption ||= e
      return unless thread.alive? # or this is what ended it

      thread.raise(e.is_a?(Cancelled) ? e : Interrupted.new("the fiber that waits was interrupted: #{e.class}"))
      retry
    end
  end
  private_constant :Offloaded
end
