# frozen_string_literal: true

require "digest"
require "securerandom"

module Abaca
  class Control
    # How a browser gets in: somebody with a token asks for a link, which works once and soon, and the browser has a
    # cookie from then on. Links and cookies end with the process of the watch.
    class Sessions
      # Seconds that a link and a cookie are good for.
      LINK = 60
      FIRST_LINK = 3600 # that a server prints when it starts
      COOKIE = 12 * 3600
      # Of each kind, at most: then the oldest one goes.
      MOST = 64
      private_constant :MOST

      # @param name [String] of the cookie: others of the same host have other names
      # @param clock [#call] returns seconds
      def initialize(name, clock: -> { Process.clock_gettime(Process::CLOCK_MONOTONIC) })
        @name = name
        @clock = clock
        @lock = Mutex.new
        @links = {} # digest => [level, until]
        @cookies = {}
      end

      # @param level [Symbol] what it allows
      # @param seconds [Numeric]
      # @return [String] a code that is good for one #open
      def link(level, seconds = LINK) = add(@links, level, seconds)

      # Those that were made so far let nobody in any more.
      def forget_links = @lock.synchronize { @links.clear }

      # @param code [String]
      # @return [String, nil] the field Set-Cookie; nil if the code is none, or was used
      def open(code)
        level = @lock.synchronize { level_in(@links, code).tap { @links.delete(digest(code)) } }
        level && "#{@name}=#{add(@cookies, level, COOKIE)}; Path=/; Max-Age=#{COOKIE}; HttpOnly; SameSite=Strict"
      end

      # @param field [String, nil] a request's Cookie
      # @return [Symbol, nil] what it allows
      def level(field)
        @lock.synchronize { values(field).filter_map { |value| level_in(@cookies, value) }.first }
      end

      # What a page shows that it was made for this cookie: another site's page cannot read it.
      #
      # @param field [String, nil] a request's Cookie
      # @return [String, nil] nil if no cookie of it is one
      def token(field)
        found = values(field).find { |value| @lock.synchronize { level_in(@cookies, value) } }
        found && Digest::SHA256.hexdigest("page of #{found}")
      end

      private

      def values(field) = field.to_s.split(/; */).filter_map { |pair| pair[/\A#{@name}=(\h+)\z/, 1] }

      # Where a text is found tells nothing of those that are near it.
      def digest(text) = Digest::SHA256.digest(text)

      def add(to, level, seconds)
        SecureRandom.hex(32).tap do |text|
          @lock.synchronize do
            to.shift if to.size >= MOST
            to[digest(text)] = [level, @clock.call + seconds]
          end
        end
      end

      def level_in(all, text)
        level, limit = all[digest(text)]
        level if limit && @clock.call < limit
      end
    end
  end
end
