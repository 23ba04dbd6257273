# frozen_string_literal: true

require "json"

module Bench
  # One measurement in a process of its own, which prints one line of JSON as its last. A process that takes too long
  # is ended, and counts as hanging.
  module Turn
    module_function

    # @param command [Array<String>]
    # @param name [String] of the log file
    # @param env [Hash]
    # @param limit [Numeric] seconds
    # @param cpu [Integer, nil] the CPU to pin to
    # @yieldparam child [Child] that has just been started
    # @return [Hash{Symbol => Object}] what it printed
    # @raise [Failed] when it hangs, dies or prints something else
    def take(command, name:, env: {}, limit: 60, cpu: nil)
      child = Child.new(command, name: name, env: env, cpu: cpu, files: Files.raise_limit)
      yield child if block_given?
      status = child.wait(seconds: limit)
      raise Failed, "hangs: stopped after #{limit} s" unless status
      raise Failed, "dies: #{death(status, child)}" unless status.success?

      JSON.parse(File.readlines(child.log).last.to_s, symbolize_names: true)
    rescue JSON::ParserError
      raise Failed, "says nothing: #{child.last_words}"
    ensure
      child&.stop
    end

    def death(status, child)
      signal = status.signaled? ? "#{Signal.signame(status.termsig)}, " : ""
      "#{signal}#{child.last_words.gsub(%r{\S*/}, "")}"[0, 160]
    end
    private_class_method :death
  end
end
