# frozen_string_literal: true

module Abaca
  class Profile
    # Collapsed stacks, as programs for flame graphs read them: a line for each stack, from the route to what was waited
    # for, and microseconds.
    class Collapsed < Form
      # @return [String]
      def text
        lines = @profile.merged.map { |stack| [stack.path, (stack.seconds * 1_000_000).round] }
        lines.reject! { |_, time| time.zero? }
        lines.map { |path, time| "#{path.map { |frame| clean(frame) }.join(';')} #{time}\n" }.join
      end

      private

      # A semicolon would end the frame.
      def clean(frame) = frame.tr(";", ":")
    end
  end
end
