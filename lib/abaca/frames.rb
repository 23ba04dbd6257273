# frozen_string_literal: true

require "rbconfig"

module Abaca
  # Finds the app's own lines in a backtrace.
  module Frames
    # The server's own files, and Ruby's internal frames.
    OWN = [File.expand_path("..", __dir__) + File::SEPARATOR, "<internal:"].freeze
    # Ruby's library, and gems of all kinds.
    LIBRARIES = %w[rubylibdir sitedir vendordir].filter_map { |name| RbConfig::CONFIG[name] }.freeze
    # A method of C that no line of Ruby has called: Ruby puts the program's name before it, as if that were a file.
    NO_LINE = /\A(?!.*:\d+:in ).*:in (?=[`'])/m
    FROM_C = " (called from C)"
    private_constant :OWN, :LIBRARIES, :NO_LINE, :FROM_C

    class << self
      # @param backtrace [Array<String>]
      # @return [Array<String>] without the server's own lines
      def without_own(backtrace) = backtrace.reject { |frame| frame.start_with?(*OWN) }.map { |frame| named(frame) }

      # @param backtrace [Array<String>, nil]
      # @return [String, nil] the innermost line of the app, otherwise of a gem, otherwise any; paths below the
      #   working directory are relative
      def top(backtrace)
        frames = without_own(backtrace || [])
        found = frames.find { |frame| !frame.start_with?(*libraries) && !frame.end_with?(FROM_C) } || frames.first ||
                backtrace&.first
        found&.delete_prefix("#{Dir.pwd}/")
      end

      # @param backtrace [Array<String>, nil]
      # @return [String, nil] the line of .top, in the method that it stands in: "app/reports.rb:41 in `sum'". A method
      #   of Ruby's own has its caller's line, and says nothing.
      def place(backtrace)
        line = top(backtrace)
        where = line && line[/\A(.*?:\d+):in /m, 1] or return line

        same = backtrace.drop_while { |frame| !frame.end_with?(line) }
        same = same.take_while { |frame| frame.delete_prefix("#{Dir.pwd}/").start_with?("#{where}:in ") }
        (same.last || line).delete_prefix("#{Dir.pwd}/").sub(/:in (?=[`'])/, " in ")
      end

      private

      def named(frame) = frame.match?(NO_LINE) ? frame.sub(NO_LINE, "").concat(FROM_C) : frame

      # Gems may be elsewhere once Bundler is set up. To find them may take a lock, which a trap handler must not do.
      def libraries
        @libraries = LIBRARIES + (defined?(Gem) ? Gem.path : [])
      rescue ThreadError
        @libraries || LIBRARIES
      end
    end

    libraries # finds gems now
  end
end
