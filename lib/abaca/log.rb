# frozen_string_literal: true

require_relative "log/forms"
require_relative "log/text"
require_relative "log/writer"

module Abaca
  # The server's log. Nothing here waits for the terminal, pipe or file: a writer thread writes the lines, and if it
  # falls behind, lines are dropped and counted. Nothing here raises into the server either.
  class Log
    LEVELS = { debug: 0, info: 1, warn: 2, error: 3 }.freeze

    # The longest chain of causes that an error's report follows.
    CAUSES = 5
    STALL_ADVICE = "such work belongs in Abaca.offload { } or on a thread route, or in smaller pieces (docs/stalls.md)"
    FIBER_ADVICE = "create the fiber with `blocking: false'; one of an Enumerator needs Ruby 3.2 (docs/stalls.md)"
    private_constant :STALL_ADVICE, :FIBER_ADVICE

    # @param out [#write] takes information and the access log
    # @param err [#write] takes warnings and errors; `out` if only that is given
    # @param level [Symbol] the least level that is written: :debug, :info, :warn or :error
    # @param format [Symbol] :text or :json, of everything but the access log
    # @param formatter [#call, nil] gets each entry of `out` without its end, returns the one to write
    # @param pid [Boolean] whether each line begins with the process's id, `[4711] `, and each JSON object has it as
    #   `pid`: for processes that share an output. A formatter gets lines without it
    # @raise [ConfigError] for an unknown level or format
    def initialize(out = nil, err = out, level: :info, format: :text, formatter: nil, pid: false)
      out ||= $stdout
      err ||= $stderr
      self.level = level
      @form = Forms.of(format, pid)
      @pid = pid
      @formatter = formatter
      @io = out
      @out = writer(out)
      @err = out.equal?(err) ? @out : writer(err)
      @echoes = {}
    end

    # @return [Symbol] the least level that is written
    def level = LEVELS.key(@level)

    # @param level [Symbol]
    # @raise [ConfigError] for an unknown one
    def level=(level)
      @level = LEVELS.fetch(level) { raise ConfigError, "unknown log level: #{level.inspect}" }
    end

    # A line of information on `out`.
    def info(text) = put(:info, text)

    # A line for debugging the server itself.
    def debug(text) = put(:debug, text)

    # @return [Boolean] whether #debug writes
    def debug? = LEVELS[:debug] >= @level

    # A line on `err`: something is wrong, and the server continues.
    def warn(text) = problem(:warn, text)

    # A line on `err`.
    def error(text) = problem(:error, text)

    # The app raised: class, message, backtrace and causes, on `err`.
    #
    # @param exception [Exception]
    # @param env [Hash, nil] the request's env; only its method and path are used
    def app_error(exception, env) = failure("error in the app", exception, env)

    # An exception: class, message, backtrace and causes, on `err`.
    #
    # @param what [String] has failed
    # @param exception [Exception]
    # @param env [Hash, nil] the request's env
    def failure(what, exception, env = nil)
      facts = { "exception.type" => exception.class.to_s, **request_facts(env) }
      details = append_causes(frames(exception.backtrace || []), exception)
      problem(:error, "#{what}: #{describe(exception)}#{request_text(env)}",
              details:, key: "exception.stacktrace", facts:)
    rescue StandardError => e
      # Its backtrace or a cause raises: that is the app's mistake too, and the class is still worth a line.
      problem(:error, "#{what}: #{exception.class} (its report failed: #{e.class})")
    end

    # The app rescued the exception that should have ended its work, and continued, on `err`.
    #
    # @param exception [Cancelled]
    # @param env [Hash, nil] the request's env
    def swallowed(exception, env)
      warn("the app went on after #{exception.class}#{request_text(env)}")
    end

    # Other code has raised an exception in a thread of the server that ran no request, on `err`.
    #
    # @param exception [Exception] it is dropped
    def stray(exception)
      warn("an exception from another thread came while the server's thread ran no request, and is dropped: " \
           "#{describe(exception)}")
    end

    # A response's body was not as long as its Content-Length says, on `err`.
    #
    # @param longer [Boolean] or else shorter
    # @param env [Hash, nil] the request's env
    def wrong_length(longer, env)
      warn("a body is #{longer ? 'longer' : 'shorter'} than its Content-Length#{request_text(env)}")
    end

    # A response's header is not as Rack requires, and is sent anyway, on `err`.
    #
    # @param name [String]
    # @param trouble [String] a clause
    # @param env [Hash, nil] the request's env
    def odd_header(name, trouble, env)
      warn("the header #{Text.escape(name)}#{request_text(env)} #{trouble}")
    end

    # A request, or a thread of the app, keeps the server from its work, on `err`.
    #
    # @param seconds [Float] its length so far
    # @param env [Hash, nil] the request's env
    # @param place [String] where: a line of the app, if there is one
    # @param late [Boolean, :blocks, :fiber] whether in code that Ruby could not interrupt, in a call that blocked the
    #   thread, or in a wait of a blocking fiber
    def stall(seconds, env, place, late)
      who = env ? "a request#{request_text(env)} has kept its loop" : "the loop had to wait for another thread"
      where = { true => ", in code that Ruby cannot interrupt; it has come back to",
                :blocks => ", in a call that blocks the thread; it has come back to",
                :fiber => ", in a wait of a blocking fiber:" }.fetch(late, ":")
      advice = late == :fiber ? FIBER_ADVICE : STALL_ADVICE
      problem(:warn, "#{who} for at least #{(seconds * 1000).round} ms#{where}",
              details: [*frames([place]), "  #{advice}"], key: "code.stacktrace", facts: request_facts(env))
    end

    # A stall that was logged is over, on `err`.
    #
    # @param seconds [Float] its length
    # @param computed [Float] CPU time of it; 0: not known
    # @param waited [Integer] requests that could not begin at once meanwhile
    # @param env [Hash] the request's env; empty: it was a thread of the app
    def stall_over(seconds, computed, waited, env)
      who = env.empty? ? "another thread let the loop" : "a request#{request_text(env)} let its loop"
      time = ", computing for #{length(computed)}" if computed.positive?
      text = "#{who} go after #{length(seconds)}#{time}; #{waited} #{waited == 1 ? "request" : "requests"} waited"
      problem(:warn, text, facts: request_facts(env))
    end

    # The first requests have kept the server from its work by loading code, on `out`: logged once.
    #
    # @param seconds [Float] its length so far
    # @param env [Hash, nil] the first request's env
    # @param place [String] where
    def loading(seconds, env, place)
      info("* Loading code has kept the loop for at least #{(seconds * 1000).round} ms#{request_text(env)} at " \
           "#{place}; the first minute's others are only counted")
    end

    # A route of mode :hybrid moves to threads, on `err`, or back to fibers, on `out`.
    #
    # @param path [String, nil] a pattern of its paths; nil: all paths without a route
    # @param where [Symbol] :thread, :fiber, or :forgotten if it has lost its place to a route in use
    # @param seconds [Float] the p95 of the time that its requests kept the loop or, on threads, computed
    # @param requests [Integer] the number of requests in the p95
    def moved(path, where, seconds, requests)
      route = path ? "requests for #{Text.escape(path)}" : "requests for all other paths"
      figure = "p95 #{(seconds * 1000).round(1)} ms of #{requests}"
      case where
      when :thread then warn("#{route} keep the loop (#{figure}): they run on threads from now on (docs/modes.md)")
      when :fiber then info("#{route} behave (#{figure}): they run on fibers again")
      else info("#{route} are few (#{figure}): they run on fibers again, others need the place")
      end
    end

    # There was no request for `idle_timeout`, on `out`: the server stops.
    #
    # @param seconds [Float]
    def idle(seconds) = info("- Idle for #{seconds.to_s.delete_suffix('.0')} s (idle_timeout), gracefully stopping")

    # The time for a graceful stop is over, on `err`.
    #
    # @param in_app [Integer] requests that are interrupted
    # @param waiting [Integer] requests that are answered 503 before they came to the app
    # @param taken_over [Integer] connections that the app has taken over and not closed
    def broken_off(in_app, waiting, taken_over)
      also = " and #{waiting} that wait" if waiting.positive?
      also = "#{also} and #{taken_over} connections of the app's" if taken_over.positive?
      warn("the shutdown does not wait any longer: #{in_app} requests#{also} are broken off")
    end

    # A request that an exception did not end is abandoned, on `err`.
    #
    # @param env [Hash, nil] the request's env
    # @param seconds [Float] since it began
    def abandoned(env, seconds)
      warn("a request is given up that did not end in #{seconds.round(1)} s#{request_text(env)}")
    end

    # A dump, on `out` at every level.
    #
    # @param text [String] of several lines
    def dump(text)
      first, *others = text.lines(chomp: true)
      write(@out, @form.entry(:info, first, details: others))
    end

    # A line of the access log, on `out` at every level.
    #
    # @param line [String] without its end, and without control characters
    # @param mark [Boolean] whether the process's id stands in front where this log has it
    def access(line, mark: false)
      @out.push("#{text_of_access(line, mark)}\n")
      nil
    rescue StandardError => e
      formatter_failed(e)
    end

    # @return [Boolean] whether lines have the process's id
    def pid? = @pid

    # Has somebody told that lines are lost, once in a minute. It is called on any thread; what it raises is dropped.
    #
    # @yieldparam error [Exception] why they cannot be written
    # @return [nil]
    def on_loss(&block)
      @on_loss = block
      nil
    end

    # Starts the writer threads, so that lines are written also when there are no threads to be had any more.
    def prepare = [@out, @err].uniq.each(&:prepare)

    # From now on, each line goes to these as well.
    #
    # @param out [IO, nil] gets what goes to `out`
    # @param err [IO, nil] gets what goes to `err`
    def echo(out, err)
      @echoes = { @out => out, @err => err }.compact.transform_values { |io| writer(io) }
    end

    # Ends that, after it has written what there is.
    def end_echo(timeout = 1)
      echoes = @echoes
      @echoes = {}
      echoes.each_value { |writer| writer.release(timeout) }
    end

    # Waits until everything so far is written.
    #
    # @param timeout [Numeric] seconds to wait at most
    # @return [Boolean] whether it was
    def flush(timeout = 1)
      [@out, @err].uniq.map { |writer| writer.flush(timeout) }.all?
    end

    # As #flush, and ends the writer threads; a later line starts them anew.
    def release(timeout = 1)
      end_echo(timeout)
      [@out, @err].uniq.map { |writer| writer.release(timeout) }.all?
    end

    # As #release, at the end of a process: a later line starts no thread.
    def close(timeout = 1)
      end_echo(timeout)
      [@out, @err].uniq.map { |writer| writer.close(timeout) }.all?
    end

    # Lines that were dropped because the reader was too slow or has gone.
    #
    # @return [Integer]
    def dropped = [@out, @err].uniq.sum(&:dropped)

    private

    # "412 ms", "5.2 s"
    def length(seconds) = seconds < 0.9995 ? "#{(seconds * 1000).round} ms" : "#{seconds.round(1)} s"

    def writer(io)
      Writer.new(io, report: ->(number) { text_of(@form.entry(:error, "#{number} log lines were dropped")) },
                     trouble: ->(error) { trouble(io, error) })
    end

    # Said where it may still be read.
    def trouble(io, error)
      other = io.equal?(@io) ? @err : @out
      text = "the log cannot be written, and lines are dropped: #{error.message} (#{error.class})"
      other.push(text_of(@form.entry(:error, text))) unless @out.equal?(@err)
      tell_loss(error)
    end

    def tell_loss(error)
      @on_loss&.call(error)
    rescue StandardError
      nil # there is no place to say so
    end

    def put(level, text)
      write(@out, @form.entry(level, text)) unless LEVELS[level] < @level
    end

    def problem(level, text, **details)
      write(@err, @form.entry(level, text, **details)) unless LEVELS[level] < @level
    end

    def write(writer, entry)
      line = @formatter && writer.equal?(@out) ? "#{@formatter.call(entry)}\n" : text_of(entry)
      writer.push(line)
      @echoes[writer]&.push(line)
      nil
    rescue StandardError => e
      formatter_failed(e)
    end

    def text_of(entry) = "#{@pid ? @form.with_pid(entry) : entry}\n"

    def text_of_access(line, mark)
      return @formatter.call(line) if @formatter

      mark && @pid ? "[#{Process.pid}] #{line}" : line
    end

    def formatter_failed(error)
      @err.push(text_of(@form.entry(:error, "the log formatter failed: #{error.class}")))
      nil
    end

    # An exception whose message raises is still worth its class, request and backtrace.
    def describe(exception)
      "#{exception.class}: #{Text.visible(exception.message)}"
    rescue StandardError => e
      "#{exception.class} (its report failed: #{e.class})"
    end

    def request_text(env)
      return "" unless env

      " (#{Text.escape("#{env['REQUEST_METHOD']} #{path_of(env)}")})"
    end

    def request_facts(env)
      env ? { "http.request.method" => env["REQUEST_METHOD"], "url.path" => path_of(env) } : {}
    end

    def path_of(env) = "#{env['SCRIPT_NAME']}#{env['PATH_INFO']}"

    def frames(lines) = lines.map { |line| "    #{line}" }

    def append_causes(lines, exception)
      CAUSES.times do
        exception = exception.cause or break
        lines << "  caused by #{describe(exception)}"
        lines.concat(frames(exception.backtrace || []))
      end
      lines
    end
  end
end
