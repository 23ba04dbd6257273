# frozen_string_literal: true

require "digest"
require "securerandom"

module Abaca
  class Control
    # How a browser gets in: somebody with a token asks for a link, which works once and soon. The browser has a cookie
    # from then on, with which it may look. It sends that to every port of the host, so acts also need the secret in the
    # fragment of the link, which no server is sent. Links and cookies end with the process of the watch.
    class Sessions
      # Seconds that a link and a cookie are good for.
      LINK = 60
      FIRST_LINK = 3600 # that a server prints when it starts
      COOKIE = 12 * 3600
      # Of each kind, at most: then the oldest one goes.
      MOST = 64
      # Until when a link or a cookie is good, what it allows, and the digest of the secret that acts need.
      Entry = Struct.new(:limit, :level, :secret)
      private_constant :MOST, :Entry

      # @param name [String] of the cookie: others of the same host have other names
      # @param clock [#call] returns seconds
      def initialize(name, clock: -> { Process.clock_gettime(Process::CLOCK_MONOTONIC) })
        @name = name
        @clock = clock
        @lock = Mutex.new
        @links = {} # digest => Entry
        @cookies = {}
      end

      # @param level [Symbol] what it allows
      # @param seconds [Numeric]
      # @return [String] path, query and fragment of a link, which is good for one #open
      def link(level, seconds = LINK)
        secret = SecureRandom.hex(32)
        "/open?code=#{add(@links, level, seconds, digest(secret))}##{secret}"
      end

      # Those that were made so far let nobody in any more.
      def forget_links = @lock.synchronize { @links.clear }

      # @param code [String]
      # @return [String, nil] the field Set-Cookie; nil if the code is none, or was used
      def open(code)
        link = @lock.synchronize { find(@links, code).tap { @links.delete(digest(code)) } } or return
        cookie = add(@cookies, link.level, COOKIE, link.secret)
        "#{@name}=#{cookie}; Path=/; Max-Age=#{COOKIE}; HttpOnly; SameSite=Strict"
      end

      # @param field [String, nil] a request's Cookie
      # @return [Symbol, nil] what it allows
      def level(field) = session(field)&.level

      # @param field [String, nil] a request's Cookie
      # @param secret [String, nil]
      # @return [Boolean] whether the link of that cookie had this secret
      def acts?(field, secret)
        found = session(field)
        !found.nil? && found.secret == digest(secret.to_s)
      end

      private

      def session(field)
        values = field.to_s.split(/; */).filter_map { |pair| pair[/\A#{@name}=(\h+)\z/, 1] }
        @lock.synchronize { values.filter_map { |value| find(@cookies, value) }.first }
      end

      # Where a text is found tells nothing of those that are near it.
      def digest(text) = Digest::SHA256.digest(text)

      def add(to, level, seconds, secret)
        SecureRandom.hex(32).tap do |text|
          @lock.synchronize do
            to.shift if to.size >= MOST
            to[digest(text)] = Entry.new(@clock.call + seconds, level, secret)
          end
        end
      end

      def find(all, text)
        found = all[digest(text)]
        found if found && @clock.call < found.limit
      end
    end
  end
end
