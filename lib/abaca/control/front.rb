# frozen_string_literal: true

module Abaca
  class Control
    # Where a control server listens, and who may use it there.
    Front = Struct.new(:places, :guard) do
      # @return [Sessions] of browsers
      def sessions = guard.sessions

      # @return [String, nil] for a browser; nil: it has no port
      def url = places.address.port && places.address.to_s.sub(/\Atcp:/, "http:")

      # @param level [Symbol] what it allows
      # @param seconds [Numeric] for which it is good
      # @return [String, nil] that lets a browser in, once
      def link(level, seconds) = url && "#{url}#{sessions.link(level, seconds)}"
    end
  end
end
