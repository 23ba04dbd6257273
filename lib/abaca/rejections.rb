# frozen_string_literal: true

module Abaca
  # Logs how many requests were answered 503 without reaching the app: as soon as it happens, then at most once a
  # minute.
  class Rejections
    # Seconds between two lines.
    PAUSE = 60

    # What the log says for each of the engine's counters. Rejections during a shutdown are expected and not logged.
    REASONS = {
      queue_timeout: ->(config) { "had waited for #{config[:queue_timeout]} s (queue_timeout)" },
      queue_full: ->(config) { "found #{config[:max_queue]} others waiting (max_queue)" },
      request_timeout: ->(_) { "had no time left (request_timeout)" },
      no_fiber: ->(_) { "found no memory for a stack, or no thread" }
    }.freeze
    private_constant :REASONS

    # @param server [Server]
    def initialize(server)
      @server = server
      @told = Hash.new(0)
      @since = Time.now
      @next = 0.0
    end

    # @param counts [Hash{Symbol => Integer}] `rejected` of docs/stats.md
    # @param now [Float] seconds of the monotonic clock
    # @return [nil]
    def look(counts, now = Process.clock_gettime(Process::CLOCK_MONOTONIC))
      return if now < @next

      more = REASONS.keys.to_h { |reason| [reason, counts[reason] - @told[reason]] }
      more.select! { |_, count| count.positive? }
      tell(more) if more.any?
      @next = now + PAUSE if more.any?
      @told = counts
      @since = Time.now
      nil
    end

    private

    def tell(more)
      parts = more.map { |reason, count| "#{count} #{REASONS.fetch(reason).call(@server.config)}" }
      count = more.values.sum
      who = count == 1 ? "1 request was" : "#{count} requests were"
      @server.log.warn("#{who} answered 503 without the app since #{@since.strftime("%T")}: " \
                       "#{parts.join(", ")} (docs/overload.md#watching-it)")
    end
  end
end
