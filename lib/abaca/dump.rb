# frozen_string_literal: true

require_relative "log/text"

module Abaca
  # The state of a server as text: a line for each request in flight, one for each other fiber, and the threads.
  class Dump
    # Requests, and other fibers, that get a line; beyond that only their number is given.
    MOST = 1_000
    # Characters of a path.
    PATH = 200
    # Equal stacks that are shown, and frames of one.
    STACKS = 50
    FRAMES = 20
    private_constant :MOST, :PATH, :STACKS, :FRAMES

    # @param requests [Requests]
    def initialize(requests)
      @requests = requests.to_a
      @others = requests.others
    end

    # @return [String]
    def to_s
      threads = Thread.list
      ["=== #{@requests.size} requests, #{@others.size} other fibers, #{threads.size} threads ===",
       *some(@requests) { |request| request_line(request) }, *some(@others) { |fiber| "fiber    #{waits(fiber)}" },
       *stacks,
       *threads.flat_map { |thread| thread_lines(thread) }, "==="].map { |line| Log::Text.line(line) }.join("\n")
    end

    private

    def some(list, &)
      lines = list.first(MOST).map(&)
      lines << "... and #{list.size - MOST} more" if list.size > MOST
      lines
    end

    def request_line(request)
      path = Log::Text.escape(request[:path][0, PATH])
      from = " from #{request[:peer]}" if request[:peer]
      mark = " cancelled" if request[:cancelled]
      format("request %<age>9.3f s  %<phase>-8s %<method>s %<path>s%<from>s%<mark>s%<waits>s",
             age: request[:age], phase: request[:phase], method: Log::Text.escape(request[:method]), path:, from:,
             mark:, waits: request.key?(:backtrace) ? "  #{waits(request)}" : "")
    end

    def waits(fiber)
      text = case fiber[:waiting_for]
             when nil then "runs"
             when :ready then "is about to run"
             else "waits for #{fiber[:waiting_for]}"
             end
      detail = "(#{fiber[:detail]})" if fiber[:detail]
      place = "at #{fiber[:frame]}" if fiber[:frame]
      [text, detail, place].compact.map { |part| Log::Text.escape(part) }.join(" ")
    end

    # Fibers that wait at the same place, with the same frames: how many, for what, and the age of the oldest request.
    def stacks
      waiting = (@requests + @others).select { |row| row[:waiting_for] && row[:backtrace] }
      groups = waiting.group_by { |row| [row[:waiting_for], row[:backtrace]] }.values.select { |rows| rows.size > 1 }
      groups.sort_by { |rows| -rows.size }.first(STACKS).flat_map { |rows| stack_lines(rows) }
    end

    def stack_lines(rows)
      oldest = rows.filter_map { |row| row[:age] }.max
      age = format(", the oldest %.3f s", oldest) if oldest
      frames = Frames.without_own(rows.first[:backtrace]).first(FRAMES)
      ["#{rows.size} wait for #{rows.first[:waiting_for]}#{age}:", *frames.map { |frame| "  #{frame}" }]
    end

    def thread_lines(thread)
      name = thread.name || (thread == Thread.main ? "main" : "no name")
      frames = thread.backtrace || []
      frames = Frames.without_own(frames) if thread == Thread.current # which begin with this dump
      ["Thread: TID-#{thread.object_id.to_s(36)} #{name} (#{thread.status})", *frames.map { |frame| "  #{frame}" }]
    end
  end
end
