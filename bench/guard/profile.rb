# frozen_string_literal: true

module Bench
  class Guard
    # A file of callgrind's: what one thread did between two marks.
    class Profile
      MALLOCS = %w[malloc calloc realloc reallocarray memalign aligned_alloc posix_memalign].freeze
      # A thread that finds a lock taken, by accident, waits for it or wakes another.
      LOCKS = /\A(?:__lll_lock_|__futex_)/

      # @return [Integer]
      attr_reader :instructions, :mallocs
      # @return [Hash{String => Integer}] system calls by the function that makes them, without those of contended locks
      attr_reader :system_calls
      # @return [Hash{String => Integer}] instructions of each function, without those that it calls
      attr_reader :functions

      # @param path [String] of a file with the events Ir and sysCount
      def initialize(path)
        @names = {}
        @functions = Hash.new(0)
        @system_calls = Hash.new(0)
        @mallocs = 0
        File.foreach(path, mode: "rb") { |line| read(line) }
        @instructions = @functions.values.sum
        @system_calls.delete_if { |name, count| count.zero? || name.match?(LOCKS) }
      end

      private

      # The line after "calls=" has what the call cost, which is another function's.
      def read(line)
        case line
        when /\Afn=\((\d+)\)(?: (.*))?$/ then @function = name(Regexp.last_match)
        when /\Acfn=\((\d+)\)(?: (.*))?$/ then @called = name(Regexp.last_match)
        when /\Acalls=(\d+)/
          @mallocs += Regexp.last_match(1).to_i if MALLOCS.include?(@called)
          @of_call = true
        when /\A[-+*\d]\S* (\d+)(?: (\d+))?/
          count(Regexp.last_match(1).to_i, Regexp.last_match(2).to_i) unless @of_call
          @of_call = false
        end
      end

      # A name comes once, and then its number stands for it. What follows on it is a version, or a level of recursion.
      def name(match)
        @names[match[1]] = match[2].sub(/(?:@.*|'\d+)\z/, "") if match[2]
        @names.fetch(match[1])
      end

      def count(instructions, system_calls)
        @functions[@function] += instructions
        @system_calls[@function] += system_calls
      end
    end
  end
end
