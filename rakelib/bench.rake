# frozen_string_literal: true

desc "Keep the newest result of each benchmark, from clean trees only"
task :results do
  require_relative "../bench/support/bench"
  Bench::Results.prune
end
