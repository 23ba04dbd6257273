# frozen_string_literal: true

module Abaca
  class Top
    # What is asked for in the last line: a text, which takes effect while it is typed, or a yes.
    class Prompt
      # Characters of a text.
      MOST = 100
      private_constant :MOST

      # A filter.
      class Filter
        # @param view [View]
        def initialize(view)
          @view = view
          @before = view.filter
        end

        # @return [String]
        def line = "/#{Sight::Text.safe(@view.filter)}_   Enter keeps it, Esc does not"

        # @param key [String, Symbol]
        # @return [Boolean] whether it is done
        def press(key)
          @view.filter = changed(key)
          %i[enter escape].include?(key)
        end

        private

        def changed(key)
          text = @view.filter
          case key
          when :escape then @before
          when :erase then text[0...-1]
          when :clear then ""
          when String then text.size < MOST ? text + key : text
          else text
          end
        end
      end

      # A question.
      class Question
        # @param text [String] safe to show
        # @yield [Boolean] the answer
        def initialize(text, &answer)
          @text = text
          @answer = answer
        end

        # @return [String]
        def line = "#{@text} y, or any other key"

        # @param key [String, Symbol]
        # @return [Boolean] true
        def press(key)
          @answer.call(key == "y")
          true
        end
      end
    end
  end
end
