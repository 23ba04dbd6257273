# frozen_string_literal: true

require_relative "answer"

module Abaca
  class Control
    # Takes profiles of all processes that serve: one at a time, since each costs them some of their time.
    class Profiles
      # Seconds that a process gets beyond those of the profile.
      GRACE = 2.0
      # Seconds, and what is taken, where nobody says it.
      USUAL = 10
      # Seconds to tell processes that nobody wants it any more.
      SOON = 1.0
      # Bytes of a chart that is kept.
      LARGEST = 8 * 1024 * 1024
      private_constant :GRACE, :USUAL, :SOON, :LARGEST

      # What is asked for.
      Wish = Struct.new(:kind, :seconds, :format)

      # One that goes on.
      class Run
        # @param crew [Crew]
        # @param wish [Wish]
        # @param keep [#call] gets an answer that others may ask for later
        # @yield when it has ended
        def initialize(crew, wish, keep:, &ended)
          @crew = crew
          @keep = keep
          @profile = Profile.new(kind: wish.kind, seconds: wish.seconds)
          @form = wish.format
          @members = crew.members
          @thread = Thread.new { take(wish, &ended) }
          @thread.name = "abaca control profile"
          @thread.report_on_exception = false
        end

        # @return [Answer, nil] nil: it goes on
        def answer
          return if @thread.alive?

          @thread.value # raises what has gone wrong
          Profiles.answer(@profile, @form).tap { |answer| @keep.call(answer) if @form == "svg" }
        end

        # Nobody waits for it any more.
        def cancel
          @crew.ask("end-profile", within: SOON, to: @members) if @thread.alive?
        end

        private

        def take(wish)
          with = { kind: wish.kind, seconds: wish.seconds }
          answers = @crew.ask("profile", within: wish.seconds + GRACE, to: @members, **with)
          answers.each { |member, answer| @profile.add(member.index, member.pid, Profiles.read(answer)) }
        ensure
          yield
        end
      end

      class << self
        # @param answer [Answer, nil] of a process
        # @return [Hash{Symbol => Object}, nil] nil: it has not told anything
        def read(answer) = answer&.status == 200 ? JSON.parse(answer.body, symbolize_names: true) : nil

        # @param profile [Profile]
        # @param format [String] of Profile::FORMATS
        # @return [Answer] whose field names those that have told nothing
        def answer(profile, format)
          form = profile.form(format)
          missing = profile.missing
          fields = missing.empty? ? form.fields : form.fields.merge("Abaca-Missing" => missing.join(", "))
          Answer.new(200, form.type, form.text, fields)
        end
      end

      # @return [Answer, nil] the last chart that was asked for, so that a browser can show it in a tab of its own
      attr_reader :chart

      # @param crew [Crew]
      def initialize(crew)
        @crew = crew
        @lock = Mutex.new
      end

      # Begins one.
      #
      # @param request [Request]
      # @return [Answer] with a job, unless the request asks for something that there is not, or another one goes on
      def begin(request)
        wish = read(request)
        return wish if wish.is_a?(Answer)
        return Answer.json({ v: 1, error: "a profile is being taken: one at a time" }, status: 409) unless take_place

        Answer.later(Run.new(@crew, wish, keep: method(:keep)) { @lock.synchronize { @running = false } })
      rescue StandardError
        @lock.synchronize { @running = false }
        raise
      end

      private

      def keep(answer) = @chart = (answer if answer.body.bytesize <= LARGEST)

      def take_place = @lock.synchronize { @running ? false : @running = true }

      def read(request)
        usual = request.prefers?("text/plain") ? "text" : "json"
        wish = Wish.new(request.parameter("kind") || "wait",
                        Float(request.parameter("seconds") || USUAL, exception: false),
                        request.parameter("format") || usual)
        trouble = trouble_with(wish)
        trouble ? Answer.text(422, trouble) : wish
      end

      def trouble_with(wish)
        return "kind: #{Profile::KINDS.join(' or ')} is needed" unless Profile::KINDS.include?(wish.kind)
        return "format: one of #{Profile::FORMATS.join(', ')} is needed" unless Profile::FORMATS.include?(wish.format)
        return if wish.seconds&.between?(0.1, Profile::LONGEST) || (wish.seconds&.zero? && wish.kind == "stall")

        "seconds: 0.1 to #{Profile::LONGEST} are needed; or 0, for all stalls so far"
      end
    end
  end
end
