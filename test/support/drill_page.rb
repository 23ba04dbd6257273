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

  # Where `rake drill` writes what each command has printed during its fault.
  SCREENS = File.expand_path("../../docs/drill.md", __dir__)
  HEAD = <<~TEXT
    # What the looks print

    The [questions](sight.md) with what their commands print while the fault is there, each from a real server with two
    workers. `rake drill` makes this page, by the drill that tests the table.
  TEXT

  # @param seen [Hash{Question => String}]
  def self.write(seen)
    parts = questions.map do |question|
      lines = seen.fetch(question).lines.map { |line| line.chomp[0, 110].rstrip }
      lines = lines.drop_while { |line| line.empty? || line.start_with?("Command ") }.join("\n").strip
      "\n## #{question.text}\n\n`#{question.command}`: look for #{question.advice}\n\n```\n#{lines}\n```\n"
    end
    File.write(SCREENS, HEAD + parts.join)
  end

  def self.questions
    all.reject { |question| question.command.start_with?("abacactl profile") }
  end

  # Profiles take their time, and have tests of their own.
  def self.all
    table = File.read(FILE)[/^\| question \| command \| what to look for \|\n\|[-|]+\|\n((?:\|.*\|\n)+)/, 1]
    table.lines.map do |line|
      text, command, advice = line.chomp.delete_prefix("| ").delete_suffix(" |").split(" | ", 3)
      Question.new(text, command.delete("`"), advice)
    end
  end
end
