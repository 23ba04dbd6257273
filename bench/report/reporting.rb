# frozen_string_literal: true

require_relative "../support/bench"

module Bench
  # The report: charts and sentences from the results, on a page, in Markdown, and in the README.
  module Reporting
  end
end

require_relative "numbers"
require_relative "text"
require_relative "account"
require_relative "run"
require_relative "bar"
require_relative "ratio"
require_relative "chart"
require_relative "sentence"
require_relative "reader"
require_relative "readers"
require_relative "plain"
require_relative "suites"
require_relative "results_folder"
require_relative "scenario"
require_relative "behind"
require_relative "published"
require_relative "figures"
require_relative "changes"
require_relative "svg"
require_relative "template"
require_relative "card"
require_relative "page"
require_relative "markdown"
require_relative "picture"
require_relative "front"
require_relative "book"
