# frozen_string_literal: true

module Bench
  # What `perf` has found: in which part, and in which function of it, the samples were taken.
  class Samples
    # The parts that are libraries, and how the names of their files begin. A program may also have them within itself.
    LIBRARIES = {
      "Ruby" => /\A(?:lib)?ruby/, "libc" => /\A(?:libc|libm|libpthread|ld-(?:linux|musl)[\w-]*)[.-]/,
      "OpenSSL" => /\Alib(?:ssl|crypto)\b/, "nghttp2" => /\Alibnghttp2\b/
    }.freeze
    KERNEL = "kernel"
    OWN = "own code"
    OTHERS = "others"
    PARTS = ["Ruby", KERNEL, "libc", OWN, "OpenSSL", "nghttp2", OTHERS].freeze

    # Options of `perf report`, and a line of what it prints with them: samples, file, where it runs, function.
    REPORT = %w[--stdio -q --no-children -g none -F sample,dso,sym -t |].freeze
    LINE = /\A\s*(\d+)\s*\|\s*(\S.*?)\s*\|\s*\[(.)\]\s*(\S.*?)\s*\z/
    UNNAMED = "(no name)" # functions of a file without their names
    MOST = 15 # functions of a part
    LEAST = 0.5 # percent of all samples that a function must have

    # @param own [Array<String>] how the names of the files begin that have the program's own code
    def initialize(own:)
      @own = /\A(?:lib)?#{Regexp.union(own)}/
      @counts = PARTS.to_h { |part| [part, Hash.new(0)] }
    end

    # @param text [String] of `perf report` with the options of REPORT
    def add(text)
      text.each_line do |line|
        count, file, place, function = line.match(LINE)&.captures
        @counts[part(file, place)][function.match?(/\A0x\h+\z/) ? UNNAMED : function] += Integer(count) if count
      end
    end

    # @return [Integer]
    def total = @counts.values.sum { |functions| functions.values.sum }

    # @return [Hash{String => Float}] percent of the samples by part
    def shares = @counts.transform_values { |functions| percent(functions.values.sum) }

    # @return [Hash{String => Hash{String => Float}}] part => function => percent of all samples, the most first
    def functions
      found = @counts.transform_values do |functions|
        functions.sort_by { |_, count| -count }.first(MOST).to_h.transform_values { |count| percent(count) }
                 .select { |_, share| share >= LEAST }
      end
      found.reject { |_, functions| functions.empty? }
    end

    private

    def part(file, place)
      return KERNEL if place == "k"

      LIBRARIES.find { |_, pattern| file.match?(pattern) }&.first || (file.match?(@own) ? OWN : OTHERS)
    end

    def percent(count) = total.zero? ? 0.0 : (count * 100.0 / total).round(1)
  end
end
