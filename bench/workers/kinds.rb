# frozen_string_literal: true

require_relative "reactor"

module Bench
  # A master and its workers, joined by pipes: the master writes "STATUS" to each worker and waits for
  # its "OK", again and again. Each kind is another way to run the workers; the work is the same.
  module Workers
    QUESTION = "STATUS"
    ANSWER = "OK"

    # The two pipes between the master and one worker.
    class Link
      attr_reader :questions, :answers # [reader, writer] each

      def initialize
        @questions = IO.pipe
        @answers = IO.pipe
      end

      # Thread-style code of a worker: it blocks where it has to wait.
      def serve(requests)
        requests.times do
          raise "a wrong question" unless @questions.first.read(QUESTION.bytesize) == QUESTION

          @answers.last.write(ANSWER)
        end
      end

      # Thread-style code of the master's side.
      # @return [Integer] right answers
      def ask(requests)
        requests.times.count do
          @questions.last.write(QUESTION)
          @answers.first.read(ANSWER.bytesize) == ANSWER
        end
      end

      # The same two for the reactor.
      def serve_on(reactor, requests)
        requests.times do
          raise "a wrong question" unless reactor.read(@questions.first, QUESTION.bytesize) == QUESTION

          reactor.write(@answers.last, ANSWER)
        end
      end

      def ask_on(reactor, requests)
        requests.times.count do
          reactor.write(@questions.last, QUESTION)
          reactor.read(@answers.first, ANSWER.bytesize) == ANSWER
        end
      end
    end

    # The old master: one loop on IO.select that sends each worker that has answered its next question.
    class Master
      def initialize(links)
        @links = links
      end

      # @return [Integer] right answers
      def run(requests)
        right = 0
        left = @links.to_h { |link| [link.answers.first, [link.questions.last, requests]] }
        left.each_value { |writer, _| writer.write(QUESTION) }
        until left.empty?
          IO.select(left.keys).first.each do |reader|
            right += 1 if reader.read(ANSWER.bytesize) == ANSWER
            next_question(left, reader)
          end
        end
        right
      end

      private

      def next_question(left, reader)
        writer, waiting = left.fetch(reader)
        return left.delete(reader) if waiting == 1

        left[reader] = [writer, waiting - 1]
        writer.write(QUESTION)
      end
    end

    KINDS = %w[threads processes old_master fast_master automatic].freeze

    module_function

    # Each method returns the number of right answers.

    def threads(links, requests)
      workers = links.map { |link| Thread.new { link.serve(requests) } }
      right = Master.new(links).run(requests)
      workers.each(&:join)
      right
    end

    def processes(links, requests)
      workers = links.map do |link|
        fork do
          link.serve(requests)
          exit!(0)
        end
      end
      right = Master.new(links).run(requests)
      ended = workers.map { |pid| Process.wait2(pid).last }
      raise "a worker failed" unless ended.all?(&:success?)

      right
    end

    # The workers are fibers of a reactor in one thread, the master has another.
    def old_master(links, requests)
      workers = Thread.new do
        reactor = Reactor.new
        links.each { |link| reactor.start { link.serve_on(reactor, requests) } }
        reactor.run
      end
      right = Master.new(links).run(requests)
      workers.join
      right
    end

    # Workers and master are fibers of the same reactor.
    def fast_master(links, requests)
      right = 0
      reactor = Reactor.new
      links.each do |link|
        reactor.start { link.serve_on(reactor, requests) }
        # Others add to the sum while this one waits.
        reactor.start { (answers = link.ask_on(reactor, requests)) && right += answers }
      end
      reactor.run
      right
    end

    # Thread-style code on both sides; the scheduler makes it run on fibers.
    def automatic(links, requests)
      right = 0
      Thread.new do
        Fiber.set_scheduler(Abaca::Scheduler.new)
        links.each do |link|
          Fiber.schedule { link.serve(requests) }
          Fiber.schedule { (answers = link.ask(requests)) && right += answers }
        end
      end.join
      right
    end
  end
end
