# frozen_string_literal: true

require "json"
require_relative "../version"

module Abaca
  class Profile
    # For profiler.firefox.com: its processed format, in which each stack stands once, with its milliseconds as the
    # weight. A worker is a thread of its own. The categories are the states.
    class Firefox < Form
      # Of the processed format, and of the format that it was made from.
      VERSION = 47
      GECKO = 28
      # Colours that the format knows, for states.
      COLOURS = { "db" => "blue", "cache" => "lightblue", "http" => "green", "io" => "green", "pool" => "orange",
                  "lock" => "red", "sleep" => "grey", "drain" => "brown", "body" => "brown", "run" => "yellow",
                  "sched" => "purple", "gvl" => "magenta" }.freeze
      private_constant :VERSION, :GECKO, :COLOURS

      # As Form.
      def type = "application/json"

      # @return [String]
      def text = JSON.generate({ meta:, libs: [], threads: })

      private

      def states = @states ||= ["Other", *@profile.stacks.filter_map(&:state).uniq.sort]

      def meta
        { interval: 1, startTime: @profile.began.to_f * 1000, endTime: (@profile.began.to_f + @profile.seconds) * 1000,
          processType: 0, product: "Abaca #{Abaca::VERSION}: #{@profile.title}", stackwalk: 0, version: GECKO,
          preprocessedProfileVersion: VERSION, symbolicated: true, markerSchema: [], sourceCodeIsNotOnSearchfox: true,
          sampleUnits: { time: "ms", eventDelay: "ms", threadCPUDelta: "ns" },
          categories: states.map { |name| { name:, color: COLOURS.fetch(name, "grey"), subcategories: ["Other"] } },
          extra: [{ label: "Workers", entries: @profile.workers.map { |one| entry(one) } }] }
      end

      def entry(worker)
        { label: worker.to_s, format: "string", value: worker.pending ? "has not answered in time" : "answered" }
      end

      def threads
        @profile.workers.reject(&:pending).map do |worker|
          Thread.new(worker, @profile.stacks.select { |stack| stack.worker == worker.index }, states).to_h
        end
      end

      # The tables of one worker: all have an entry for each of their columns.
      class Thread
        # @param worker [Worker]
        # @param stacks [Array<Stack>]
        # @param states [Array<String>] in the order of the categories
        def initialize(worker, stacks, states)
          @worker = worker
          @states = states
          @strings = {}
          @funcs = {} # [name, file] => number
          @frames = {} # [func, line, category] => number
          @nodes = {} # [prefix, frame] => number
          @samples = stacks.map { |stack| [number_of(stack), stack.seconds * 1000] }
        end

        # @return [Hash{Symbol => Object}]
        def to_h
          { name: @worker.to_s, isMainThread: true, processType: "default", processName: @worker.to_s,
            processStartupTime: 0, processShutdownTime: nil, registerTime: 0, unregisterTime: nil, pausedRanges: [],
            pid: @worker.pid.to_s, tid: @worker.pid, samples:, markers:, stackTable: stack_table,
            frameTable: frame_table, funcTable: func_table, resourceTable: resource_table,
            nativeSymbols: { libIndex: [], address: [], name: [], functionSize: [], length: 0 },
            stringArray: @strings.keys }
        end

        private

        def string(text) = @strings[text] ||= @strings.size

        def number_of(stack)
          category = @states.index(stack.state) || 0
          stack.path.inject(nil) { |prefix, text| @nodes[[prefix, frame(text, category)]] ||= @nodes.size }
        end

        # "app/reports.rb:41 in `sum'" has a file and a line; a route has none.
        def frame(text, category)
          match = /\A(?<file>.+):(?<line>\d+) in [`'](?<name>.*)'\z/m.match(text)
          func = [string(match ? match[:name] : text), match && string(match[:file])]
          func = @funcs[func] ||= @funcs.size
          @frames[[func, match && match[:line].to_i, category]] ||= @frames.size
        end

        def samples
          { stack: @samples.map(&:first), time: @samples.each_index.to_a, weight: @samples.map do |_, time|
            time.round(3)
          end,
            weightType: "tracing-ms", eventDelay: @samples.map { 0 }, length: @samples.size }
        end

        def markers
          { data: [], name: [], startTime: [], endTime: [], phase: [], category: [], length: 0 }
        end

        def stack_table
          frames = @nodes.keys.map(&:last)
          { frame: frames, prefix: @nodes.keys.map(&:first), category: frames.map { |one| category(one) },
            subcategory: frames.map { 0 }, length: frames.size }
        end

        def category(frame) = (@categories ||= @frames.keys.map(&:last))[frame]

        def frame_table
          rows = @frames.keys
          none = Array.new(rows.size)
          { address: rows.map { -1 }, inlineDepth: rows.map { 0 }, category: rows.map(&:last),
            subcategory: rows.map { 0 }, func: rows.map(&:first), nativeSymbol: none, innerWindowID: none,
            implementation: none, line: rows.map { |row| row[1] }, column: none, length: rows.size }
        end

        def func_table
          rows = @funcs.keys
          none = Array.new(rows.size)
          { name: rows.map(&:first), isJS: rows.map { false }, relevantForJS: rows.map { false },
            resource: rows.map { -1 }, fileName: rows.map(&:last), lineNumber: none, columnNumber: none,
            length: rows.size }
        end

        def resource_table = { lib: [], name: [], host: [], type: [], length: 0 }
      end
    end
  end
end
