# frozen_string_literal: true

require "rbconfig"

module Bench
  # Another checkout of Abaca, compiled, that takes part beside this one in the same rounds (--against).
  class Against
    # @return [String] its folder
    attr_reader :root

    # @param root [String] its folder
    # @raise [ArgumentError] if there is no compiled Abaca
    def initialize(root)
      @root = File.expand_path(root)
      built = [exe, File.join(lib, "abaca", "abaca.#{RbConfig::CONFIG.fetch("DLEXT")}")]
      missing = built.find { |path| !File.exist?(path) }
      raise ArgumentError, "no compiled Abaca to compare with: #{missing} does not exist" if missing
    end

    def exe = File.join(root, "exe", "abaca")
    def lib = File.join(root, "lib")

    # @return [String] of its rows, such as "abaca bc69bd6"
    def name
      @name ||= begin
        commit = Machine.commit(root)
        "abaca #{commit || File.basename(root)}#{" changed" if commit && Machine.dirty?(root)}"
      end
    end

    # @param label [String] of a row of this checkout
    # @return [String] of the same row of the other one
    def label(label) = label.sub(/\Aabaca/, name)

    # Compares each row of this checkout with the other's. A ratio belongs to one round, in which both had their turns
    # within seconds; above 1, this checkout needs more.
    #
    # @param turns [Hash{String => Array}] label => rounds
    # @param figures [Hash{Symbol => #to_proc}] what is taken from a round; less is better
    # @return [String] a table
    def render(turns, **figures)
      table = Table.new(["ratio to #{name}", "other", "this", "ratio", "lowest", "highest", "every round"])
      turns.each do |label, rounds|
        others = turns.fetch(label(label), rounds)
        next if others.equal?(rounds)

        figures.each { |figure, pick| add(table, "#{label}: #{figure}", rounds.zip(others), pick.to_proc) }
      end
      table.to_s
    end

    private

    def add(table, title, rounds, pick)
      pairs = rounds.select(&:all?).map { |pair| pair.map(&pick) }.select { |pair| pair.all?(&:positive?) }
      ratios = pairs.map { |this, other| this.fdiv(other) }
      return table.note(title, "no round of both") if ratios.empty?

      this, other = pairs.transpose.map { |values| format("%.4g", Statistics.median(values)) }
      found = [Statistics.median(ratios), *ratios.minmax].map { |ratio| format("%.3f", ratio) }
      table.add(title, other, this, *found, verdict(ratios))
    end

    def verdict(ratios)
      return if ratios.size == 1

      if ratios.min > 1 then "worse"
      elsif ratios.max < 1 then "better"
      end
    end
  end
end
