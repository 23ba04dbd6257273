# frozen_string_literal: true

require "fileutils"
require "json"

module Bench
  # Writes the results of a run, with a description of the machine. bench/results holds runs from clean trees; quick
  # runs and trial runs go to tmp/.
  module Results
    DIRECTORY = File.join(DIR, "results")
    LOOKS = File.join(TMP, "results")

    module_function

    # @param name [String] the benchmark
    # @param data [Hash] everything that a later reader needs
    # @param roots [Array<String>] folders whose places on this machine are left out
    # @return [String] the path, below the project's root
    def write(name, data, roots: [ROOT])
      machine = Machine.facts
      directory = machine[:uncommitted_changes] || data[:quick] || data[:look] ? LOOKS : DIRECTORY
      FileUtils.mkdir_p(directory)
      path = File.join(directory, "#{Time.now.utc.strftime("%Y-%m-%d-%H%M%S")}-#{name}.json")
      text = text({ benchmark: name, machine: machine }.merge(data))
      File.write(path, text.gsub(Regexp.union(roots.map { |root| "#{root}/" }), ""))
      path.delete_prefix("#{ROOT}/")
    end

    # Keeps the newest result of each part of a benchmark, from clean trees only, each round on a line; and
    # the results that the newest run of all benchmarks names, on each Ruby.
    #
    # @param directory [String]
    def prune(directory = DIRECTORY)
      seen = []
      named = []
      Dir[File.join(directory, "*.json")].sort.reverse_each do |path|
        data = JSON.parse(File.read(path))
        parts = data.dig("machine", "uncommitted_changes") ? [] : parts_of(data) - seen
        next File.delete(path) if parts.empty? && !named.include?(File.basename(path))

        File.write(path, text(data))
        seen.concat(parts)
        named.concat(data.fetch("scenarios", []).filter_map { |one| one["file"] && File.basename(one["file"]) })
      end
    end

    # @return [String] JSON with a line for whatever holds nothing but figures and lists of them
    def text(data) = "#{lines(data, "")}\n"

    def lines(value, indent)
      return JSON.generate(value) if flat?(value)

      inner = "#{indent}  "
      if value.is_a?(Hash)
        entries = value.map { |key, entry| "#{JSON.generate(key.to_s)}: #{lines(entry, inner)}" }
        return "{\n#{inner}#{entries.join(",\n#{inner}")}\n#{indent}}"
      end
      "[\n#{inner}#{value.map { |entry| lines(entry, inner) }.join(",\n#{inner}")}\n#{indent}]"
    end

    def flat?(value)
      members(value).none? { |member| member.is_a?(Hash) || members(member).any? { |inner| members(inner).any? } }
    end

    def members(value)
      case value
      when Hash then value.values
      when Array then value
      else []
      end
    end

    # What a run has measured: its rows, parts or named loads, where it has any, or else the benchmark, each on its
    # Ruby. A comparison of two checkouts is not the same as a run without.
    def parts_of(data)
      ruby = data["server_ruby"] || data.dig("machine", "ruby")
      found = (data["rows"] || data["contests"])&.map { |row| [row["row"], row["ruby"] || ruby] } ||
              (names_of(data["parts"]) || data.fetch("loads", []).filter_map { |load| load["name"] }).product([ruby])
      found = [[nil, ruby]] if found.empty?
      found.map { |name, on| [data["benchmark"], name, on.to_s[/\d+\.\d+/], data.key?("against")] }
    end

    # Of the parts themselves, or of those that were asked for.
    def names_of(parts) = parts.is_a?(Hash) ? parts.keys : parts
    private_class_method :lines, :flat?, :members, :parts_of, :names_of
  end
end
