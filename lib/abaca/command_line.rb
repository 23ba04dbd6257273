# frozen_string_literal: true

module Abaca
  # What command lines have in common: those of `abaca`, `abaca top`, `abaca timing` and `abacactl`.
  module CommandLine
    private

    # For a flag that asks for a text, and for nothing else: then `@done` says that this was all.
    def finish(text)
      @out.puts(text)
      @done = true
    end
  end
end
