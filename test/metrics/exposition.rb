# frozen_string_literal: true

require "set"

# A strict reader of Prometheus's text format 0.0.4, written from the format's description. It knows nothing of how the
# server writes it.
class Exposition
  NAME = /[a-zA-Z_:][a-zA-Z0-9_:]*/
  LABEL = /([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^\\"\n]|\\\\|\\"|\\n)*)"/
  NUMBER = /[+-]?(?:\d+(?:\.\d+)?(?:[eE][+-]?\d+)?|Inf|NaN)/
  SAMPLE = /\A(#{NAME})(?:\{(#{LABEL}(?:,#{LABEL})*)?,?\})? (#{NUMBER})\z/
  TYPES = %w[counter gauge histogram summary untyped].freeze
  ESCAPES = { "\\\\" => "\\", "\\\"" => "\"", "\\n" => "\n" }.freeze

  # A text that is not of this format.
  class Malformed < StandardError; end

  HELP = /\A# HELP (#{NAME}) (.*)\z/
  TYPE = /\A# TYPE (#{NAME}) (\w+)\z/

  # @return [Hash{String => String}] types by family
  attr_reader :types
  # @return [Hash{String => Hash{Hash => Float}}] values by name and labels
  attr_reader :samples

  def initialize(text)
    @types = {}
    @helps = {}
    @samples = {}
    refuse("is not UTF-8") unless text.dup.force_encoding(Encoding::UTF_8).valid_encoding?
    refuse("does not end with a line's end") unless text.end_with?("\n")
    text.dup.force_encoding(Encoding::UTF_8).split("\n", -1)[..-2].each { |line| read(line) }
    check_histograms
    check_names
  end

  def [](name, **labels) = @samples.fetch(name, {})[labels]

  # The sum over a family.
  def sum(name) = @samples.fetch(name, {}).values.sum

  # All that may only grow: counters, and the buckets, sums and counts of histograms.
  def counters
    @samples.flat_map do |name, values|
      next [] unless %w[counter histogram].include?(@types[family(name)])

      values.map { |labels, value| [[name, labels], value] }
    end.to_h
  end

  private

  def refuse(what) = raise(Malformed, what)

  def read(line)
    case line
    when HELP then help(line[HELP, 1])
    when TYPE then type(*line.match(TYPE).captures)
    when SAMPLE then sample(*line.match(SAMPLE).values_at(1, 2, -1))
    else refuse("no line of the format: #{line.inspect}")
    end
  end

  def help(name)
    refuse("two HELP of #{name}") if @helps[name]
    @helps[name] = true
  end

  # Before the family's samples, which follow without any others between.
  def type(name, type)
    refuse("two TYPE of #{name}") if @types[name]
    refuse("type #{type}") unless TYPES.include?(type)
    refuse("no HELP of #{name}") unless @helps[name]
    @types[name] = type
    @family = name
  end

  def sample(name, labels, value)
    refuse("#{name} stands within #{@family}") unless family(name) == @family
    pairs = labels.to_s.scan(LABEL).map { |key, text| [key.to_sym, text.gsub(/\\[\\"n]/, ESCAPES)] }
    refuse("a label twice: #{name}{#{labels}}") unless pairs.map(&:first).uniq.size == pairs.size
    of_name = (@samples[name] ||= {})
    refuse("twice: #{name}{#{labels}}") if of_name.key?(pairs.to_h)
    of_name[pairs.to_h] = value.end_with?("Inf") ? Float::INFINITY : Float(value)
  end

  def family(name)
    return name if @types[name]

    base = name.delete_suffix("_bucket").delete_suffix("_sum").delete_suffix("_count")
    @types[base] == "histogram" ? base : refuse("no TYPE of #{name}")
  end

  # Buckets grow up to +Inf, which is the count.
  def check_histograms
    @types.select { |_, type| type == "histogram" }.each_key do |name|
      groups = @samples.fetch("#{name}_bucket").group_by { |labels, _| labels.except(:le) }
      groups.each { |labels, buckets| check_buckets(name, labels, buckets) }
      refuse("#{name}: sums of others") unless @samples["#{name}_sum"].keys.to_set == groups.keys.to_set
    end
  end

  def check_buckets(name, labels, buckets)
    bounds = buckets.map { |of, _| of[:le] == "+Inf" ? Float::INFINITY : Float(of[:le]) }
    counts = buckets.map(&:last)
    refuse("#{name}: bounds #{bounds}") unless bounds == bounds.sort.uniq && bounds.last == Float::INFINITY
    refuse("#{name}#{labels}: counts #{counts}") unless counts == counts.sort
    refuse("#{name}#{labels}: +Inf is not the count") unless counts.last == @samples.dig("#{name}_count", labels)
    sum = @samples.dig("#{name}_sum", labels)
    least = counts.each_cons(2).zip(bounds).sum { |(one, two), bound| (two - one) * bound }
    refuse("#{name}#{labels}: a sum of #{sum} for at least #{least}") if sum < least * 0.99
  end

  def check_names
    @types.each do |name, type|
      refuse("#{name} is a #{type}") if name.end_with?("_total") != (type == "counter")
      refuse("#{name} has no samples") if @samples.none? { |sample, _| family(sample) == name }
    end
  end
end
