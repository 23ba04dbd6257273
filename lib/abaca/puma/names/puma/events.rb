# frozen_string_literal: true

# Puma, as gems see it.
module Puma
  # Moments in the server's life, and the blocks that are called then: `:after_booted`, `:before_restart` and
  # `:after_stopped` by the server, others by whoever fires them.
  class Events
    def initialize
      @blocks = Hash.new { |blocks, event| blocks[event] = [] }
    end

    # @param event [Symbol]
    # @param object [#call, nil] in place of a block
    # @return [#call] the object, or the block
    # @raise [ArgumentError] for both, and for neither
    def register(event, object = nil, &block)
      raise ArgumentError, "an object or a block is needed, not both" unless object.nil? ^ block.nil?

      (object || block).tap { |one| @blocks[event] << one }
    end

    # Calls the blocks of an event.
    def fire(event, *arguments) = @blocks[event].each { |block| block.call(*arguments) }

    { after_booted: :on_booted, before_restart: :on_restart, after_stopped: :on_stopped }.each do |event, old|
      define_method(event) { |&block| register(event, &block) }
      alias_method old, event
      define_method(:"fire_#{event}!") { fire(event) }
    end
  end
end
