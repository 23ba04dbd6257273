# frozen_string_literal: true

# The table that docs/sight.md begins with: what an operator asks, types and looks for. The drill follows it to the
# letter, so the page says what really helps.
module DrillPage
  FILE = File.expand_path("../../docs/sight.md", __dir__)

  # A row. In the last column all words in code are quoted from what the command prints.
  Question = Struct.new(:text, :command, :advice) do
    # The words of the command, without the program's own name.
    def words = command.split

    def marks = advice.scan(/`([^`]+)`/).flatten

    # Columns have names in capitals, or are called so.
    def head?(mark)
      (mark.match?(%r{\A[A-Z/%-]+\z}) && mark != "STALL") || advice.include?("column `#{mark}`")
    end

    # Whether the output names the cause, as the page says: all words are there, those that are no column's name in the
    # line that has the cause.
    def named?(output, cause)
      heads, words = marks.partition { |mark| head?(mark) }
      heads.all? { |head| output.include?(head) } && output.lines.any? do |line|
        words.all? { |word| line.include?(word) } && (cause.is_a?(Proc) ? cause.call(line, output) : cause.match?(line))
      end
    end
  end

  def self.questions
    table = File.read(FILE)[/^\| question \| command \| what to look for \|\n\|[-|]+\|\n((?:\|.*\|\n)+)/, 1]
    table.lines.map do |line|
      text, command, advice = line.chomp.delete_prefix("| ").delete_suffix(" |").split(" | ", 3)
      Question.new(text, command.delete("`"), advice)
    end
  end
end
