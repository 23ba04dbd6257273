# frozen_string_literal: true

require_relative "profile"

module Bench
  class Guard
    # What something costs: objects (nil where there is no Ruby), mallocs, system calls, instructions.
    class Counts
      NAMES = { objects: "objects", mallocs: "mallocs", system_calls: "system calls",
                instructions: "instructions" }.freeze

      # @return [Numeric, nil]
      attr_reader(*NAMES.keys)
      # @return [Hash{String => Numeric}] system calls and instructions by function
      attr_reader :calls, :functions

      # @param path [String] of callgrind's file
      # @param objects [Integer, nil]
      def self.read(path, objects = nil)
        profile = Profile.new(path)
        new(objects: objects, mallocs: profile.mallocs, calls: profile.system_calls, functions: profile.functions)
      end

      # @param several [Array<Counts>] of the same thing
      # @return [Counts] the least of each
      def self.least(several)
        new(objects: several.map(&:objects).min, mallocs: several.map(&:mallocs).min,
            calls: several.min_by(&:system_calls).calls, functions: several.min_by(&:instructions).functions)
      end

      def initialize(objects:, mallocs:, calls:, functions:)
        @objects = objects
        @mallocs = mallocs
        @calls = calls
        @functions = functions
        @system_calls = calls.values.sum
        @instructions = functions.values.sum
      end

      # @param other [Counts]
      # @return [Counts] what this is more than the other
      def -(other) = combine(other) { |own, others| own - others }

      # @param times [Integer]
      # @return [Counts] one of so many
      def share(times) = combine(self) { |own, _| own / times.to_f }

      # @return [Hash{Symbol => Numeric}] as the baseline has it
      def to_h
        { objects: @objects&.round(2), mallocs: @mallocs.round(2), system_calls: @system_calls.to_f.round(2),
          instructions: @instructions.round }.compact
      end

      private

      def combine(other)
        hash = lambda do |own, others|
          (own.keys | others.keys).to_h { |name| [name, yield(own.fetch(name, 0), others.fetch(name, 0))] }
        end
        Counts.new(objects: @objects && yield(@objects, other.objects), mallocs: yield(@mallocs, other.mallocs),
                   calls: hash.call(@calls, other.calls), functions: hash.call(@functions, other.functions))
      end
    end
  end
end
