# frozen_string_literal: true

require "json"
require_relative "puma_stats"
require_relative "questions"

module Abaca
  class Control
    # The processes that serve, as the watch sees them: who there is stands in the page, and each has a line of its own
    # (Errands), which works though the master is stopped.
    class Crew
      # One of them: its number as a worker, its slot, its process, and its line, if it has one.
      Member = Struct.new(:index, :slot, :pid, :line)

      # @param enrolment [Enrolment]
      # @param slots [Launcher::Cluster::Slots, Launcher::OnlySlot]
      # @yieldparam questions [Questions] of one that has come
      def initialize(enrolment, slots, &welcome)
        @enrolment = enrolment
        @slots = slots
        @welcome = welcome
        @lines = {} # slot => [process, Questions]
        @thread = Thread.new { loop { @enrolment.receive&.then { |one| take(*one) } } }
        @thread.name = "abaca crew"
        @thread.report_on_exception = false
      end

      # @param index [Integer, nil] of a worker; nil: all
      # @return [Array<Member>] those that the page says are alive, by their numbers
      def members(index = nil)
        found = @slots.page.select { |slot| PumaStats::ALIVE.include?(slot.state) }.map { |slot| member(slot) }
        found.select! { |member| member.index == index } if index
        found.sort_by { |member| [member.index, member.slot] }
      end

      # Asks several at once.
      #
      # @param word [String]
      # @param within [Numeric] seconds
      # @param to [Array<Member>]
      # @param with [Hash{Symbol => Object}]
      # @return [Hash{Member => Answer, nil}] nil: there was none in time
      def ask(word, within:, to: members, **with)
        threads = to.to_h { |member| [member, Thread.new { member.line&.ask(word, within:, **with) }] }
        threads.transform_values(&:value)
      end

      private

      def member(slot)
        pid, line = @lines[slot.index]
        Member.new(slot.index % @slots.most, slot.index, slot.pid, (line if pid == slot.pid))
      end

      def take(slot, pid, socket)
        questions = Questions.new(socket)
        @lines[slot]&.last&.close
        @lines[slot] = [pid, questions]
        @welcome&.call(questions)
      end
    end
  end
end
