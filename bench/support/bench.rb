# frozen_string_literal: true

# Loads what every benchmark shares. A benchmark is one file, bench/NAME.rb, that runs by itself.
module Bench
  ROOT = File.expand_path("../..", __dir__)
  DIR = File.join(ROOT, "bench")
  TMP = File.join(ROOT, "tmp", "bench")

  # A server or a tool that cannot take part; the message is the reason, one line for the table.
  class Unavailable < StandardError; end

  # A measurement without a usable figure: errors, a stall, a wrong answer.
  class Failed < StandardError; end
end

require_relative "pick"
require_relative "clock"
require_relative "machine"
require_relative "cpu_meter"
require_relative "witness"
require_relative "child"
require_relative "files"
require_relative "ruby"
require_relative "turn"
require_relative "ports"
require_relative "probe"
require_relative "compiler"
require_relative "certificate"
require_relative "client"
require_relative "tools"
require_relative "gems"
require_relative "packages"
require_relative "h2load"
require_relative "wrk"
require_relative "handshakes"
require_relative "statistics"
require_relative "ratio"
require_relative "account"
require_relative "table"
require_relative "results"
require_relative "against"
require_relative "main"
