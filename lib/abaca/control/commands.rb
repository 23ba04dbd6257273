# frozen_string_literal: true

require_relative "answer"
require_relative "catalogue"
require_relative "puma_stats"

module Abaca
  class Control
    # Answers what a control server is asked for: Puma's commands with Puma's answers, and looks and acts of our own.
    # What the page has is answered from there; the launcher does the rest.
    class Commands
      # Seconds for what the launcher does.
      TIME = 30
      private_constant :TIME

      # @param launcher [Questions, Acts]
      # @param looks [Looks, nil] nil: there is no page, and the launcher is asked
      # @param sessions [Sessions, nil] of browsers
      # @param data_only [Boolean] whether nothing can be done but read figures
      def initialize(launcher, looks: nil, sessions: nil, data_only: false)
        @launcher = launcher
        @looks = looks
        @sessions = sessions
        @data_only = data_only
      end

      # @param entry [Catalogue::Entry] who asks may have it
      # @param request [Request]
      # @param level [Symbol] of who asks
      # @return [Answer]
      def answer(entry, request, level: :admin)
        name = request.path[%r{[^/]*\z}]
        return Answer.text(404, "Command #{name.inspect} unavailable") if @data_only && !entry.figures
        return Answer.text(404, "Unsupported action") unless entry.name

        own = entry.name.tr("-", "_")
        return send(own, request, level) if OWN.include?(own)
        return look(own, request) if @looks.respond_to?(own)

        ask(entry.name)
      end

      private

      # What this class answers by itself.
      OWN = %w[stats workers link open log_level set_log_level].freeze
      private_constant :OWN

      def ask(word, **with)
        @launcher.ask(word, within: TIME, **with) ||
          Answer.json({ error: "the server has not answered in time: #{word} is not done" }, status: 504)
      end

      def look(name, request) = Answer.of(@looks.public_send(name), request)

      def stats(*) = @looks ? Answer.json(@looks.stats) : ask("stats")

      def workers(request, _level)
        return look("workers", request) if @looks

        Answer.of(PumaStats.workers(JSON.parse(ask("stats").body, symbolize_names: true)), request)
      end

      # For a browser: whoever asks gives away no more than he has.
      def link(request, level)
        wanted = request.parameter("level")&.to_sym || level
        return Answer.text(403, "Not allowed with this token") unless Catalogue.within?(wanted, level)

        Answer.json({ v: 1, path: "/open?code=#{@sessions.link(wanted)}", level: wanted, seconds: Sessions::LINK })
      end

      # Where a browser begins, with that link.
      def open(request, _level)
        cookie = @sessions.open(request.parameter("code").to_s)
        return Answer.text(403, "This link was used, or is too old: ask for another one") unless cookie

        Answer.text(303, "", { "Location" => "/dashboard", "Set-Cookie" => cookie,
                               "Referrer-Policy" => "no-referrer" })
      end

      def log_level(*) = ask("log-level")

      def set_log_level(request, _level) = ask("set-log-level", level: request.parameter("level"))
    end
  end
end
