# frozen_string_literal: true

require_relative "../servers/field"
require_relative "../servers/gateway"
require_relative "../servers/load"
require_relative "../servers/upstream"
require_relative "../fibers/rows"
require_relative "../scheduler/targets"
require_relative "../scheduler/workloads"
require_relative "../scheduler/contest"
require_relative "../serializer/calls"
require_relative "../serializer/cells"
require_relative "../report/behind"
require_relative "samples"
require_relative "system_calls"
require_relative "recorder"
require_relative "subject"
require_relative "served"
require_relative "scripted"

module Bench
  # The rows that `bin/bench profile` can record, by the names that they have in the report.
  module Profile
    # The subject that each row is, and the terms that it has besides.
    ROWS = {
      "relay/cpu" => [Relayed, {}],
      **Loads::ALL.to_h { |load| ["servers/#{load.name}", [Loaded, { load: load }]] },
      **FiberRows::ROWS.to_h { |row| ["fibers/#{row.name}", [FiberScripts, { row: row }]] },
      **SchedulerScripts::ROWS.to_h { |row| ["scheduler/#{row.name}", [SchedulerScripts, { row: row }]] },
      **Calls::ROWS.to_h { |name, row| ["serializer/ruby-#{name}", [SerializerScripts, { row: row }]] }
    }.freeze

    module_function

    # @return [Array<String>] those of report/reasons.yml
    def explained = ROWS.keys & Reporting::Behind.reasons.keys

    # @return [Array<Subject>]
    # @raise [ArgumentError] for an unknown name
    def pick(names, **options)
      unknown = names - ROWS.keys
      raise ArgumentError, "no such row: #{unknown.join(", ")}; there are #{ROWS.keys.join(", ")}" if unknown.any?

      names.map do |name|
        kind, terms = ROWS.fetch(name)
        kind.new(**terms, **options)
      end
    end
  end
end
