# frozen_string_literal: true

module Abaca
  class Top
    # What the keys do.
    module Help
      KEYS = [
        ["1 - 7, Tab", "screens: workers, requests, routes, waits, fibers, clients, events"],
        ["arrows, page keys", "choose a row; left and right: other columns"],
        ["Enter", "a request's waits; of another row, its requests"],
        ["Esc", "back; removes the filter"],
        ["/", "only rows that have a text"],
        ["< >", "sort by another column"],
        ["r", "turn the order round"],
        ["w", "one worker after the other, then all"],
        ["Space", "freeze, and go on"],
        ["+ -", "faster, slower: each 0.2 to 10 seconds"],
        ["?, q", "this page; quit"]
      ].freeze
      ACTS = [
        ["p", "profile 10 seconds of what requests wait for"],
        ["c", "cancel the request that is chosen (asks first)"],
        ["d", "dump: what each request waits for, by line"]
      ].freeze
      COLUMNS = [
        "", "LOOP%: of the time, its requests ran. LAG99: the loop did not look for events for as long, in 99 of 100",
        "cases. MB/H: its own memory grows by that in an hour. Times are those since the last look.",
        "In a state's line: how many requests were in it at once, in the mean."
      ].freeze
      private_constant :KEYS, :ACTS, :COLUMNS

      module_function

      # @param acts [Boolean] whether there is a control server
      # @return [Array<String>]
      def lines(acts:)
        [*KEYS, *(ACTS if acts)].map { |key, text| "#{key.ljust(20)}#{text}" } + COLUMNS
      end
    end
  end
end
