# frozen_string_literal: true

require "optparse"

module Bench
  # The command line of a benchmark: its options, what it shows, and what it writes.
  #
  #   Bench.main("idle") do |main|
  #     main.option :rounds, 3, "rounds for each server"
  #     main.measure { |options| main.show(Bench::Idle.new(**options)) }
  #   end
  class Main
    # @param name [String] of the benchmark
    def initialize(name)
      @name = name
      @options = {}
      @quick = false
      @parser = OptionParser.new("usage: bin/bench #{name} [options]")
    end

    # Adds --name. The default says what may be given: a number or a word in its place, a list for a list or nil, and
    # for a switch its opposite (--pinned, or --unpinned where true is the default).
    #
    # @param name [Symbol] the key in the options
    # @param text [String] for --help, which adds the default
    # @param type [Object] what OptionParser makes of the word
    def option(name, default, text, type: type_of(default))
      @options[name] = default
      return switch(name, text) if [true, false].include?(default)

      shown = Array(default).join(",")
      text = "#{text} (#{shown})" unless shown.empty?
      @parser.on("--#{name} #{type == Array ? "A,B" : "X"}", type, text) { |value| @options[name] = value }
    end

    # Adds --quick, which sets these options.
    def quick(text, **options)
      @parser.on("--quick", "#{text}: for a look, not for a claim") do
        @quick = true
        @options.update(options)
      end
    end

    # @return [Boolean] whether --quick was given
    def quick? = @quick

    # Adds --unpinned.
    def unpinned(text = "leave server and client to the kernel's scheduler") = option(:pinned, true, text)

    # Adds --against, the option `against`.
    def against
      @options[:against] = nil
      text = "another checkout of Abaca, compiled, takes part; the ratios to it come last"
      @parser.on("--against DIRECTORY", text) { |directory| @options[:against] = Against.new(directory) }
    end

    # Adds --ruby for one Ruby, the option `ruby`.
    def ruby(text = "the servers run on this Ruby, one of bin/matrix's perhaps")
      @options[:ruby] = Ruby.here
      @parser.on("--ruby 3.4", text) { |name| @options[:ruby] = Ruby.find(name) }
    end

    # Adds --ruby for several, the option `rubies`.
    def rubies(text = "these Rubies, bin/matrix's among them (the one that runs this)", default: [Ruby.here])
      @options[:rubies] = default
      @parser.on("--ruby 3.1,3.4", Array, text) { |names| @options[:rubies] = Ruby.pick(names) }
    end

    # Reads the command line, calls the block with the options, and writes the data that it returns.
    #
    # @yieldparam options [Hash]
    # @yieldreturn [Hash]
    def measure
      @parser.parse!
      Bench.account
      data = settings.merge(yield(@options))
      data[:account] = Bench.account.to_h unless Bench.account.empty?
      path = Results.write(@name, data, roots: [ROOT, @options[:against]&.root].compact)
      puts "", Bench.account.summary unless Bench.account.empty?
      puts "", "#{Machine.facts.values_at(:cpu, :cpus, :kernel).join(", ")}; #{on}", "written to #{path}"
    rescue Unavailable, Failed, ArgumentError, OptionParser::ParseError => e
      abort "bench: #{e.message}"
    end

    # Runs a part of the benchmark and prints its table.
    #
    # @param part [#run, #render, #to_h]
    # @param title [String, nil] above the table
    # @return [Hash] its data
    def show(part, title = nil)
      part.run
      puts "", *([title, ""] if title), part.render
      part.to_h
    end

    private

    def switch(name, text)
      default = @options[name]
      @parser.on("--#{"un" if default}#{name}", text) { @options[name] = !default }
    end

    def type_of(default)
      case default
      when nil, Array then Array
      else default.class
      end
    end

    # The Ruby of the servers. Where there may be several, the tables name them.
    def on = @options[:ruby]&.description || RUBY_DESCRIPTION

    def settings
      { quick: @quick, server_ruby: @options[:ruby]&.description, **@options.except(:ruby, :rubies),
        against: @options[:against]&.name }.compact
    end
  end

  # Makes the command line of a benchmark: see Main.
  #
  # @param name [String]
  # @yieldparam main [Main]
  def self.main(name) = yield(Main.new(name))
end
