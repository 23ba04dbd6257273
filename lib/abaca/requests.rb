# frozen_string_literal: true

require_relative "frames"

module Abaca
  # What Server#requests and a dump report: each request in flight with what its fiber waits for, and the fibers that
  # the app has started beside its requests. It is gathered on demand, also in a trap handler. Queries, fields and
  # bodies are left out, since they may contain secrets.
  class Requests
    # @param engine [Engine]
    # @param scheduler [Scheduler, nil] the server's own
    def initialize(engine, scheduler)
      rows = engine.requests
      @waits = [scheduler, *rows.map { |row| row[:scheduler] }].compact.uniq.flat_map(&:fibers)
      @by_fiber = @waits.to_h { |wait| [wait[:fiber], wait] }
      @carried = @waits.filter_map { |wait| [wait[:resumed_by], wait] if wait[:resumed_by] }.to_h
      @rows = rows.to_h { |row| [row[:fiber] || row, row] }
    end

    # @return [Array<Hash{Symbol => Object}>] docs/signals.md says what each has
    def to_a = @rows.each_value.map { |row| row[:fiber] ? complete(row) : row }

    # @return [Array<Hash{Symbol => Object}>] fibers that wait or are ready and belong to no request:
    #   `waiting_for`, `detail`, `frame`, `backtrace`
    def others
      @waits.reject { |wait| request_of(wait) }.map { |wait| waited(wait) }
    end

    private

    def complete(row)
      wait = @by_fiber[row[:fiber]] || @carried[row[:fiber]]
      waits = wait ? waited(wait) : running(row)
      row.except(:fiber, :thread, :scheduler).merge(waits)
    end

    # An idle fiber of a pool waits in Abaca's own code, for no request.
    def request_of(wait) = @rows[wait[:fiber]] || @rows[wait[:resumed_by]]

    def waited(wait)
      { waiting_for: wait[:waiting_for], detail: detail(wait), frame: Frames.top(wait[:backtrace]),
        backtrace: wait[:backtrace] }
    end

    # It is running, or waits where only its thread or a foreign scheduler knows.
    def running(row)
      backtrace = row[:mode] == :thread ? row[:thread].backtrace : row[:fiber].backtrace
      { waiting_for: nil, detail: nil, frame: Frames.top(backtrace), backtrace: }
    end

    def detail(wait)
      case wait[:waiting_for]
      when :io then io(wait)
      when :mutex then holder(wait[:owner])
      when :process, :dns then [wait[:object], left(wait)].compact.join(", ")
      else left(wait)
      end
    end

    def left(wait)
      return unless wait[:until]

      seconds = wait[:until] - Process.clock_gettime(Process::CLOCK_MONOTONIC)
      "#{[seconds, 0].max.round(3)} s left"
    end

    def io(wait)
      name = "fd #{wait[:fd]} #{wait[:events].join(' or ')}" if wait[:fd]
      [name, peer(wait[:object]), left(wait)].compact.join(", ")
    end

    def peer(object)
      return if Object.autoload?(:BasicSocket) # nothing can be loaded in a trap handler
      return unless object.is_a?(BasicSocket)

      object.remote_address.inspect_sockaddr
    rescue SystemCallError, IOError, SocketError
      nil # not connected, or closed meanwhile
    end

    def holder(fiber)
      return "held by a fiber of no request" if fiber && !@rows.key?(fiber)

      fiber && "held by #{@rows[fiber].values_at(:method, :path).join(' ')}"
    end
  end
end
