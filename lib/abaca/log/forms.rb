# frozen_string_literal: true

require_relative "text"

module Abaca
  class Log
    # What an event of the server's own log looks like. A form turns a level, a headline and details into one entry
    # without its end; whatever stands in them, no part of it looks like another entry.
    module Forms
      NAMES = %i[text json].freeze

      # For people: the headline, and the details in lines below it that begin with a space.
      class Plain
        MARKS = { debug: "% ", info: "", warn: "abaca: warning: ", error: "abaca: " }.freeze
        private_constant :MARKS

        # @param level [Symbol]
        # @param headline [String]
        # @param details [Array<String>] further lines
        # @return [String]
        def entry(level, headline, details: [], **)
          return MARKS.fetch(level) + Text.indent(headline) if details.empty?

          [MARKS.fetch(level) + Text.indent(headline), *details.map { |line| Text.indent(line) }].join("\n")
        end

        # @param text [String] an entry
        # @return [String] the same with the process's id in front of each line
        def with_pid(text) = text.gsub(/^/, "[#{Process.pid}] ")
      end

      # For programs: one JSON object, on one line.
      class JSON
        # @param pid [Boolean] whether the object has the process's id
        def initialize(pid) = (@pid = pid)

        # @param level [Symbol]
        # @param headline [String] becomes `message`
        # @param details [Array<String>]
        # @param key [String] of the details
        # @param facts [Hash{String => Object}] other keys and their values
        # @return [String]
        def entry(level, headline, details: [], key: "details", facts: {})
          pid = @pid ? { "pid" => Process.pid } : {}
          details = details.empty? ? {} : { key => details.map { |line| Text.visible(line).lstrip }.join("\n") }
          object({ "time" => time, "level" => level, **pid, "message" => headline, **facts, **details })
        end

        # The object has it already.
        def with_pid(text) = text

        private

        def time = Time.now.utc.strftime("%Y-%m-%dT%H:%M:%S.%LZ")

        def object(pairs) = "{#{pairs.map { |name, value| "\"#{name}\":#{json(value)}" }.join(',')}}"

        def json(value) = value.is_a?(Numeric) ? value.to_s : Text.json(value)
      end

      # @param name [Symbol] :text or :json
      # @param pid [Boolean]
      # @return [Plain, JSON]
      # @raise [ConfigError] for another name
      def self.of(name, pid)
        case name
        when :text then Plain.new
        when :json then JSON.new(pid)
        else raise ConfigError, "unknown log format: #{name.inspect}"
        end
      end
    end
  end
end
