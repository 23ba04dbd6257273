# frozen_string_literal: true

module Abaca
  class Top
    # What the server's control server does for this terminal. Each act runs on a thread of its own: the screens go on
    # meanwhile.
    class Acts
      # Seconds of a profile.
      PROFILE = 10
      # Lines of an answer that are kept.
      LINES = 2_000
      NONE = "no control server: `activate_control_app` turns one on (docs/control.md)"
      private_constant :LINES, :NONE

      # An act's end: whether it was done, and lines to be read.
      Result = Struct.new(:name, :done, :lines)

      # @param server [Server]
      def initialize(server)
        @server = server
        @results = Queue.new
      end

      # @return [Boolean] whether there is anybody to ask
      def any? = !@server.target.control_url.nil?

      # @return [String] what goes on, or why nothing does
      def profile = run("profile", "POST", "/profile?seconds=#{PROFILE}&kind=wait") || "profile: #{PROFILE} s ..."

      # The same.
      def dump = run("dump", "GET", "/dump") || "dump ..."

      # The same.
      #
      # @param id [String] of a request: its slot and its number there
      def cancel(id) = run("cancel", "POST", "/cancel?id=#{id}") || "cancel ..."

      # @return [Result, nil] of an act that has ended
      def result
        @results.pop(true)
      rescue ThreadError
        nil
      end

      private

      def run(name, verb, target)
        return NONE unless any?

        Thread.new { @results << ask(name, verb, target) }
        nil
      end

      def ask(name, verb, target)
        reply = @server.control.call(verb, target, token: @server.target.control_token, accept: "text/plain")
        lines = reply.body.lines(chomp: true).first(LINES).map { |line| Sight::Text.safe(line) }
        Result.new(name, reply.status == 200, lines)
      rescue Control::Client::Failed, ConfigError => e
        Result.new(name, false, [Sight::Text.safe(e.message)])
      end
    end
  end
end
