# frozen_string_literal: true

module Abaca
  class Top
    # `abaca top` at a terminal: looks at the pace that is set, and does what the keys say.
    class Session
      PACES = [0.2, 0.5, 1.0, 2.0, 5.0, 10.0].freeze
      # Seconds for which a message is shown, and between two searches for a server that was restarted.
      MESSAGE = 5
      SEARCH = 2
      # Seconds from the first look to the second: soon there are rates.
      FIRST = 0.2
      # What keys do: a method of the view and its argument, or a method of the session's.
      VIEW = { up: [:move, -1], down: [:move, 1], "k" => [:move, -1], "j" => [:move, 1], page_up: %i[move back],
               page_down: %i[move page], home: %i[move home], end: %i[move end], left: [:shift, -1], right: [:shift, 1],
               "<" => [:sort_by, -1], ">" => [:sort_by, 1], "r" => [:turn], tab: [:turn_over],
               escape: [:forget_filter], **(1..7).to_h { |number| [number.to_s, [:show, number]] } }.freeze
      OWN = { "q" => :quit, "?" => :help, enter: :detail, "/" => :ask_filter, "w" => :next_worker, " " => :freeze_looks,
              "+" => :faster, "-" => :slower, "p" => :profile, "d" => :dump, "c" => :ask_cancel }.freeze
      # ... whatever is shown.
      ALWAYS = { suspend: :suspend, resize: :redraw, redraw: :redraw, interrupt: :quit, over: :quit }.freeze
      private_constant :PACES, :MESSAGE, :SEARCH, :FIRST, :VIEW, :OWN, :ALWAYS

      # @param server [Server]
      # @param terminal [Terminal]
      # @param style [Style]
      # @param view [View]
      # @param pace [Float] seconds
      # @param looks [Integer, nil] how many; nil: until q
      def initialize(server, terminal:, style:, view:, pace: 1.0, looks: nil)
        @server = server
        @terminal = terminal
        @style = style
        @view = view
        @frame = Frame.new(style:, view:)
        @pace = pace
        @left = looks
        @acts = Acts.new(server)
        @places = Places.new(server)
      end

      # @param sight [Sight]
      def run(sight)
        @sight = sight
        @terminal.use { step until @over }
      end

      private

      def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)

      def step
        look if @next.nil? || now >= @next
        take_result
        return if @over

        draw
        @terminal.keys([@next - now, 0].max).each { |key| press(key) unless @over }
      end

      def look
        first = @look.nil?
        @next = now + (first ? [FIRST, @pace].min : @pace)
        search
        return if @frozen

        @look = @sight.look
        @look.places = @places.look
        count unless first # which is only one to compare with
      end

      def count
        @left &&= @left - 1
        @over = @left&.negative?
      end

      # The server may have begun anew, with another page.
      def search
        return if @searched && now - @searched < SEARCH

        @searched = now
        return unless @server.renew

        @sight = Sight.new(@server.page, master: @server.pid)
        @view.sight = @sight
        @look = @sight.look
      end

      def draw
        height, width = @terminal.size
        lines = @reader ? @reader.lines(height, width, @style) : page(height, width)
        @terminal.draw(lines.first(height))
      end

      def page(height, width)
        facts = [("frozen" if @frozen), "#{@pace.to_s.delete_suffix('.0')}s"].compact
        @frame.lines(@sight, @look, [height, width], facts:, last: @prompt&.line || message)
      end

      def message
        return @message if @message && now < @message_until

        "the server has ended (process #{@server.pid})   q quit" unless @server.there?
      end

      def say(text)
        @message = text
        @message_until = now + MESSAGE
      end

      # --- keys ---

      def press(key)
        return send(ALWAYS[key]) if ALWAYS.key?(key)
        return @reader = nil if @reader&.press(key, @terminal.size.first)
        return @prompt = nil if @prompt&.press(key)
        return if @reader || @prompt
        return @view.public_send(*VIEW[key]) if VIEW.key?(key)

        send(OWN[key]) if OWN.key?(key)
      end

      def quit = @over = true
      def help = @reader = Reader.new("keys", Help.lines(acts: @acts.any?))
      def ask_filter = @prompt = Prompt::Filter.new(@view)
      def next_worker = @view.next_worker(@look.now.workers.map(&:index))
      def freeze_looks = @frozen = !@frozen
      def faster = change_pace(-1)
      def slower = change_pace(1)
      def suspend = @terminal.suspend
      def redraw = @terminal.redraw

      def change_pace(step)
        at = PACES.index { |pace| pace >= @pace } || (PACES.size - 1)
        @pace = PACES[(at + step).clamp(0, PACES.size - 1)]
        @next = now + @pace
      end

      # --- the control server ---

      def profile = say(@acts.profile)
      def dump = say(@acts.dump)

      def ask_cancel
        worker, number = @view.chosen&.source if %i[requests fibers].include?(@view.screen)
        return say("choose a request first (screens 2 and 5)") unless number

        id = Sight.id(worker.slot.index, number)
        return say(@acts.cancel(id)) unless @acts.any?

        @prompt = Prompt::Question.new("cancel request #{id} of worker #{worker.index}?") do |yes|
          say(yes ? @acts.cancel(id) : "not cancelled")
        end
      end

      def take_result
        result = @acts.result or return
        return say("#{result.name}: #{result.lines.first}") if !result.done || result.lines.size < 2

        @reader = Reader.new(result.name, result.lines)
      end

      # --- what is chosen, in detail ---

      def detail
        row = @view.chosen or return
        case @view.screen
        when :requests, :fibers then request(row)
        when :events then @reader = Reader.new("event", event(row))
        else @view.narrow(row)
        end
      end

      def event(row) = row.cells.map { |name, value| "#{name}: #{Sight::Text.safe(value)}" }

      def request(row)
        worker, id = row.source
        return unless id

        found = @sight.detail(@look, worker, id)
        return say("this request has ended, and was not kept") unless found

        @reader = Reader.new("request #{row.id}", found.lines(ascii: @style.ascii))
      end
    end
  end
end
