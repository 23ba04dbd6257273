# frozen_string_literal: true

require "uri"

module Abaca
  class Control
    # How `abacactl` carries out each command.
    #
    # `signal`: if only a process id is known; nil: not at all. `control`: whether the control server has it. `printed`:
    # whether its answer is. `words`: what follows the command, for the help; in brackets: it may be left out. `ours`:
    # Puma does not have it, and the token does not stand in the query, which may be logged. `post`: gets the words, and
    # returns what is posted; nil: it is a look. `asks`: the names of options that become its query; what it answers
    # goes to a file or a program, so nothing else is printed.
    Way = Struct.new(:signal, :control, :printed, :words, :ours, :post, :asks, keyword_init: true) do
      # @param given [Array<String>] what follows the command
      # @return [Boolean] whether that is what it needs
      def takes?(given)
        least = words.to_s.start_with?("[") ? 0 : words.to_s.split.size
        given.size.between?(least, words.to_s.split.size)
      end

      # @param command [String]
      # @param given [Array<String>]
      # @return [Array(String, String)] method and target of a request
      def request(command, given)
        posted = post&.call(*given) if post && (given.any? || words.nil?)
        posted ? ["POST", posted] : ["GET", "/#{command}"]
      end
    end

    WAYS = {
      "start" => Way.new,
      "status" => Way.new(control: true),
      "stop" => Way.new(signal: "TERM", control: true),
      "halt" => Way.new(signal: "QUIT", control: true),
      "restart" => Way.new(signal: "USR2", control: true),
      "phased-restart" => Way.new(signal: "USR1", control: true),
      "refork" => Way.new(signal: "URG", control: true),
      "reload-worker-directory" => Way.new(control: true),
      "worker-count-up" => Way.new(signal: "TTIN"),
      "worker-count-down" => Way.new(signal: "TTOU"),
      "reopen-log" => Way.new(signal: "HUP"),
      "info" => Way.new(signal: Signal.list.key?("INFO") ? "INFO" : "PWR"),
      "gc" => Way.new(control: true),
      "gc-stats" => Way.new(control: true, printed: true),
      "stats" => Way.new(control: true, printed: true),
      "thread-backtraces" => Way.new(control: true, printed: true),
      "reload-certificates" => Way.new(control: true, ours: true, post: -> { "/reload-certificates" }),
      "workers" => Way.new(control: true, printed: true, ours: true),
      "dump" => Way.new(control: true, printed: true, ours: true),
      "config" => Way.new(control: true, printed: true, ours: true),
      "log-level" => Way.new(control: true, printed: true, ours: true, words: "[LEVEL]",
                             post: ->(level) { "/log-level?#{URI.encode_www_form(level:)}" }),
      **%w[requests kept loops routes waits clients stalls events history].to_h do |look|
        [look, Way.new(control: true, printed: true, ours: true)]
      end,
      "fibers" => Way.new(control: true, printed: true, ours: true),
      "pools" => Way.new(control: true, printed: true, ours: true),
      "set" => Way.new(control: true, printed: true, ours: true, words: "[NAME=VALUE]",
                       post: ->(pair) { "/set?#{URI.encode_www_form([pair.split('=', 2)])}" }),
      "cancel" => Way.new(control: true, ours: true, words: "ID",
                          post: ->(id) { "/cancel?#{URI.encode_www_form(id:)}" }),
      **{ "worker-gc" => "gc", "worker-drain" => "drain", "worker-recycle" => "recycle" }.transform_values do |act|
        Way.new(control: true, printed: act == "gc", ours: true, words: "NUMBER",
                post: ->(number) { "/workers/#{URI.encode_www_form_component(number)}/#{act}" })
      end,
      "profile" => Way.new(control: true, printed: true, ours: true, post: -> { "/profile" },
                           asks: %i[seconds kind format]),
      "dashboard" => Way.new(control: true, ours: true, post: -> { "/link" })
    }.freeze
  end
end
