# frozen_string_literal: true

module Abaca
  module TLS
    # Tells of certificates that are about to expire: at most one line a day for each.
    class Expiry
      # Days that are left when it begins, and when it gets urgent.
      SOON = 14
      URGENT = 3
      DAY = 86_400
      private_constant :SOON, :URGENT, :DAY

      class << self
        # @param contexts [Enumerable<TLSContext>]
        # @param now [Time]
        # @return [Array<Hash{Symbol => Object}>] each certificate once: its names, kind of key, end, and the days that
        #   are left, negative when it has expired
        def figures(contexts, now = Time.now)
          contexts.flat_map(&:certificates).uniq.map do |one|
            { names: one[:names], key: one[:key], not_after: one[:not_after].getutc.strftime("%FT%TZ"),
              days: days(one, now) }
          end
        end

        # @return [Integer] whole days
        def days(certificate, now) = ((certificate[:not_after] - now) / DAY).floor
      end

      # @param log [Log]
      def initialize(log)
        @log = log
        @told = {} # name of the certificate => [day, urgent]
      end

      # @param contexts [Enumerable<TLSContext>]
      # @param now [Time]
      def look(contexts, now = Time.now)
        contexts.flat_map(&:certificates).uniq.each do |certificate|
          days = self.class.days(certificate, now)
          tell(certificate, days, now) if days < SOON
        end
      end

      private

      def tell(certificate, days, now)
        day = now.to_i / DAY
        return if @told[certificate] == day

        @told = { **@told, certificate => day }.select { |_, told| told >= day - 1 }
        text = "the certificate #{certificate[:label]} (#{certificate[:names].first(3).join(', ')}) #{at_its_end(days)}"
        days < URGENT ? @log.error(text) : @log.warn(text)
      end

      def at_its_end(days)
        return "has expired" if days.negative?
        return "expires within a day" if days.zero?

        "expires in #{days} #{days == 1 ? 'day' : 'days'}"
      end
    end
  end
end
