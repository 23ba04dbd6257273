# frozen_string_literal: true

# Where the time of a row goes: samples by library and function, system calls; Abaca and who is ahead. See README.md.
# Usage: ruby bench/profile.rb --help

require_relative "support/bench"
require_relative "profile/rows"

Bench.main("profile") do |main|
  main.quick("one second of each", seconds: 1)
  main.option(:rows, nil, "only these, by their names in the report; else all that report/reasons.yml explains")
  main.option(:only, nil, "these servers, targets or classes, instead of Abaca and who is ahead")
  main.option(:seconds, 3, "of the samples")
  main.ruby
  main.unpinned
  main.measure do |options|
    Bench::Recorder.prepare
    rows = Bench::Profile.pick(options[:rows] || Bench::Profile.explained, **options.except(:rows))
    { rows: rows.map { |row| main.show(row, row.title) } }
  end
end
