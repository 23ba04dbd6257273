# frozen_string_literal: true

require "digest"

module Abaca
  # Who is told where the time of a request went, in the response field `Server-Timing`, where not each client is: those
  # whose request has a field that was signed with the server's secret. A signature is good until the time in it.
  class ServerTiming
    # The name of that field.
    FIELD = "Abaca-Timing"
    # Seconds that a signature is good for, unless said otherwise, and at most.
    USUAL = 300
    MOST = 86_400

    BLOCK = 64 # bytes of SHA-256
    FORM = /\A(\d{1,12})\.(\h{64})\z/
    private_constant :BLOCK, :FORM

    autoload :Command, File.expand_path("server_timing/command", __dir__)

    # @param secret [String]
    # @return [String] frozen
    # @raise [ConfigError] if it is too short to be one
    def self.check(secret)
      return secret.dup.freeze if secret.is_a?(String) && secret.bytesize >= 16

      raise ConfigError, "server_timing_secret: a String of 16 bytes or more is needed"
    end

    # @param secret [String]
    # @param clock [#call] returns seconds
    def initialize(secret, clock: -> { Process.clock_gettime(Process::CLOCK_REALTIME) })
      @clock = clock
      key = secret.bytesize > BLOCK ? Digest::SHA256.digest(secret) : secret.b
      key = key.ljust(BLOCK, "\0")
      @inner, @outer = [0x36, 0x5c].map { |pad| key.bytes.map { |byte| byte ^ pad }.pack("C*").freeze }
    end

    # @param seconds [Numeric] for how long it is good, MOST at most
    # @return [String] the value of the field
    def sign(seconds = USUAL)
      till = (@clock.call + seconds.clamp(1, MOST)).ceil
      "#{till}.#{signature(till.to_s)}"
    end

    # @param field [String] of a request
    # @return [Boolean] whether it is signed, and still good
    def allow?(field)
      till, given = FORM.match(field)&.captures
      return false unless till

      # Of two digests nobody can choose the first bytes: how long they take to compare tells nothing.
      same = Digest::SHA256.digest(given.downcase) == Digest::SHA256.digest(signature(till))
      same && @clock.call.between?(till.to_i - MOST - 1, till.to_i)
    end

    private

    # HMAC (RFC 2104), without OpenSSL, which takes 4 MB of each process.
    def signature(till)
      Digest::SHA256.hexdigest(@outer + Digest::SHA256.digest("#{@inner}abaca-timing #{till}"))
    end
  end
end
