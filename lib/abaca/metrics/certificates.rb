# frozen_string_literal: true

require "json"
require "time"

module Abaca
  class Metrics
    # When certificates expire. The launcher knows, and is asked beside the scrape, now and then: what it said last is
    # of use while it hangs.
    class Certificates
      # Seconds between two questions, and for an answer.
      PAUSE = 60
      TIME = 5
      # Seconds that the first scrape waits.
      MOMENT = 0.1
      private_constant :PAUSE, :TIME, :MOMENT

      # @param launcher [Control::Questions, nil] nil: there are none
      def initialize(launcher)
        @launcher = launcher
        @ends = {}
      end

      # @param text [Text]
      def write(text, _found)
        ask if @launcher
        text.gauge("abaca_certificate_expiry_timestamp_seconds", "When a certificate expires, by Unix time.", @ends)
      end

      private

      def ask
        now = Process.clock_gettime(Process::CLOCK_MONOTONIC)
        return if @asked && now < @asked + PAUSE

        @asked = now
        thread = Thread.new { learn }
        thread.report_on_exception = false
        thread.join(MOMENT) if @ends.empty?
      end

      # The one that expires first counts, where several have the same name and kind.
      def learn
        answer = @launcher.ask("stats", within: TIME)
        return @asked = nil unless answer&.status == 200

        found = JSON.parse(answer.body).dig("abaca", "certificates") || []
        @ends = found.each_with_object({}) do |one, ends|
          labels = { name: one["names"]&.first, key: one["key"] }
          ends[labels] = [ends[labels], Time.iso8601(one["not_after"]).to_i].compact.min
        end
      end
    end
  end
end
