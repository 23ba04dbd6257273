# frozen_string_literal: true

module Bench
  # @param all [Array<#name>]
  # @param names [Array<String>, nil] those wanted; all when nil
  # @param kind [String] what they are
  # @return [Array<#name>]
  # @raise [ArgumentError] for an unknown name
  def self.pick(all, names, kind)
    unknown = names.to_a - all.map(&:name)
    raise ArgumentError, "no such #{kind}: #{unknown.join(", ")}" unless unknown.empty?

    names ? all.select { |one| names.include?(one.name) } : all
  end
end
