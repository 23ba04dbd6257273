# frozen_string_literal: true

require_relative "answer"
require_relative "catalogue"
require_relative "pages"
require_relative "profiles"
require_relative "puma_stats"
require_relative "whereabouts"

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
      # @param views [Views, nil] of the page
      # @param crew [Crew, nil] the processes that serve
      # @param metrics [Metrics, nil]
      # @param pages [Pages, nil] the dashboard
      # @param texts [Texts, nil] of looks
      # @param board [Front, nil] the one that browsers use
      # @param data_only [Boolean] whether nothing can be done but read figures
      def initialize(launcher, looks: nil, views: nil, crew: nil, metrics: nil, pages: nil, texts: nil, board: nil, # rubocop:disable Metrics/ParameterLists -- what can be asked
                     data_only: false)
        @launcher = launcher
        @looks = looks
        @views = views
        @crew = crew
        @metrics = metrics
        @pages = pages
        @texts = texts
        @board = board
        @data_only = data_only
        @profiles = crew && Profiles.new(crew)
        @whereabouts = crew && Whereabouts.new(crew)
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
        text = screen(entry.name, request) and return text
        return send(own, request, level) if OWN.include?(own)
        return look(own, request) if @looks.respond_to?(own)
        return view(own, request) if @views.respond_to?(own)
        return @pages.public_send(own, request, level) if @pages.respond_to?(own)

        ask(entry.name)
      end

      private

      # What this class answers by itself.
      OWN = %w[stats workers metrics link open log_level set_log_level set_setting cancel worker_gc worker_drain
               worker_recycle profile chart].freeze
      private_constant :OWN

      # For those who ask for text: what `abaca top` shows, if there is a screen of it.
      def screen(name, request)
        return unless @texts && request.prefers?("text/plain")

        frames = name == "requests" && request.parameter("frames") == "1" && @whereabouts
        rows = frames ? @whereabouts.add(@views.requests(request, rows: true)[:requests]) : []
        places = rows.to_h { |row| [row[:id], row[:pending] ? Sight::Stalls::PENDING : row[:line]] }.compact
        @texts.answer(name, request, places:)
      end

      def ask(word, **with)
        @launcher.ask(word, within: TIME, **with) || not_done(word)
      end

      def not_done(word)
        Answer.json({ error: "the server has not answered in time: #{word} is not done" }, status: 504)
      end

      def look(name, request) = Answer.of(@looks.public_send(name), request)

      def view(name, request)
        return requests(request) if name == "requests" && request.parameter("frames") == "1" && @whereabouts

        return Answer.of(@views.public_send(name, request), request) unless streams?(name, request)

        Answer.events(EventStream.new(@views, request["last-event-id"]))
      end

      def requests(request)
        found = @views.requests(request, rows: true)
        Answer.of(found.merge(requests: @whereabouts.add(found[:requests])), request)
      end

      def streams?(name, request) = name == "events" && request.prefers?("text/event-stream")

      def stats(*) = @looks ? Answer.json(@looks.stats) : ask("stats")

      def workers(request, _level)
        return look("workers", request) if @looks

        Answer.of(PumaStats.workers(JSON.parse(ask("stats").body, symbolize_names: true)), request)
      end

      def metrics(request, _level)
        return Answer.text(404, "There is no page to read") unless @metrics

        @metrics.answer(request)
      end

      # For a browser: whoever asks gives away no more than he has.
      def link(request, level)
        named = request.parameter("level")
        wanted = named ? Catalogue::LEVELS.find { |one| one.name == named } : level
        return Answer.text(403, "Not allowed with this token") unless Catalogue.within?(wanted, level)

        path = @board.sessions.link(wanted)
        Answer.json({ v: 1, path:, level: wanted, seconds: Sessions::LINK, url: @board.url&.+(path) }.compact)
      end

      # Where a browser begins, with that link.
      def open(request, _level)
        cookie = @board.sessions.open(request.parameter("code").to_s)
        return Answer.text(403, "This link was used, or is too old: ask for another one") unless cookie

        Answer.text(303, "", { "Location" => "/dashboard", "Set-Cookie" => cookie,
                               "Referrer-Policy" => "no-referrer" })
      end

      def log_level(request, _level)
        answer = ask("log-level")
        return answer unless answer.status == 200

        Answer.of(JSON.parse(answer.body, symbolize_names: true), request)
      end

      def set_log_level(request, _level)
        level = request.parameter("level")
        answer = ask("set-log-level", level:)
        @crew&.ask("log-level", within: TIME, level:) if answer.status == 200
        answer
      end

      # The launcher remembers it, for workers and watches to come.
      def set_setting(request, _level)
        changes = @looks.read_changes(request.query)
        answer = ask("set", **changes)
        return answer unless answer.status == 200

        @looks.note(changes)
        answers = @crew.ask("set", within: TIME, **changes)
        Answer.of({ set: changes, workers: results(answers) }, request)
      rescue ConfigError => e
        Answer.text(422, e.message)
      end

      def cancel(request, _level)
        slot = request.parameter("id").to_s[/\A(\d{1,4})\.q?\d{1,19}\z/, 1]&.to_i
        return Answer.text(422, "an id such as 0.4711 is needed") unless slot

        id = Sight.number(request.parameter("id"))
        return still_queued(slot, id) if Sight.queued?(id)

        found = @crew.members.select { |member| member.slot == slot }
        return nothing("no such request") if found.empty?

        answer = @crew.ask("cancel", within: TIME, to: found, id:).values.first or return not_done("cancel")
        return nothing("no such request") if answer.body == "false"

        answer.status == 200 ? Answer.of({ cancelled: "#{slot}.#{id}" }, request) : answer
      end

      # It has no fiber that could get an exception: it waits for a place, or for queue_timeout.
      def still_queued(slot, id)
        return nothing("no such request") unless @views&.request?(slot, id)

        why = "#{Sight.id(slot, id)} is still in the queue, and gets another id when it is taken"
        Answer.json({ v: 1, error: why }, status: 409)
      end

      def nothing(error) = Answer.json({ v: 1, error: }, status: 404)

      def worker_gc(request, _level)
        index = number(request)
        members = @crew.members(index)
        return nothing("no worker #{index}") if members.empty?

        Answer.of({ workers: results(@crew.ask("gc", within: TIME, to: members)) }, request)
      end

      def worker_drain(request, _level) = ask("worker-drain", index: number(request))

      def worker_recycle(request, _level) = ask("worker-recycle", index: number(request))

      def profile(request, _level)
        @profiles ? @profiles.begin(request) : Answer.text(404, "There is nobody to ask")
      end

      def chart(*)
        @profiles&.chart || nothing("there is no chart: none was taken, or it is too large")
      end

      def number(request) = request.path[%r{/workers/(\d+)/}, 1].to_i

      def results(answers)
        answers.map do |member, answer|
          done = answer&.status == 200
          { index: member.index, pid: member.pid, done:,
            **(done ? JSON.parse(answer.body, symbolize_names: true) : {}) }
        end
      end
    end
  end
end
