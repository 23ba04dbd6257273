# frozen_string_literal: true

require_relative "stalls"
require_relative "units"

module Abaca
  class Sight
    # The server in a few lines, above every screen: how much it does, how long that takes, how near it is to its
    # limits, what its requests wait for, and who holds a loop.
    class Overview
      # From this share of a limit on, a figure is marked.
      NEAR = 0.85
      # States that are always shown, in this order; others when there is something of them. The server's own come
      # first.
      FIRST = %i[run sched gvl].freeze
      USUAL = %i[db pool http sleep lock body drain].freeze
      # A piece of a line: its text, and how it is marked (nil, :alarm or :faint).
      Piece = Struct.new(:text, :mark)
      private_constant :FIRST, :USUAL

      # @param look [Look]
      # @param title [Hash{Symbol => String}] the server's `version` and `tag`
      # @param started_at [Time, nil]
      def initialize(look, title: {}, started_at: nil)
        @look = look
        @title = title
        @started_at = started_at || look.now.there.filter_map(&:started_at).min
      end

      # @return [Hash{Symbol => Object}] all figures; nil is one that is not known
      def to_h
        @to_h ||= { version: @title[:version], tag: @title[:tag], up: @started_at && (@look.now.time - @started_at),
                    **workers, **traffic, **load, **machine, states: means,
                    stalls: stalls.map { |stall| stall.to_h.except(:row).transform_keys(verb: :method) } }
      end

      # @return [Array<Stalls::Stall>] of now
      def stalls = @stalls ||= Stalls.new(@look).to_a

      # @param ascii [Boolean] whether only ASCII may be shown
      # @return [Array<Array<Piece>>] lines of pieces, which stand two spaces apart
      def lines(ascii: false)
        [first(ascii), second, states, *stalls.map { |stall| [Piece.new(stall.line(ascii:), :alarm)] }]
      end

      private

      def workers
        there = @look.now.there
        { ready: there.count { |one| one.state == :serving && !@look.stopped?(one.pid) },
          workers: [@look.now.workers.count { |one| one.state != :empty }, there.size].max,
          stopped: [@look.master, *there.map(&:pid)].compact.uniq.select { |pid| @look.stopped?(pid) } }
      end

      def traffic
        latency = @look.latency(:request)
        { rate: @look.rate(&:answered), rejected: @look.rate(&:rejected), reasons: @look.rejections.keys,
          p50: latency.quantile(0.5), p95: latency.quantile(0.95), p99: latency.quantile(0.99), failed: }
      end

      # Percent of what was answered. What was rejected has no time, and would make the percentiles look better.
      def failed
        rejected = @look.rejections.values.sum
        ended = @look.count(:request) + rejected
        failed = @look.count(:request) { |one| one[:status].to_i >= 500 } + rejected
        ended.zero? ? 0.0 : failed * 100.0 / ended
      end

      def load
        there = @look.now.there
        { in_app: there.sum { |one| one.figures[:in_app] }, places: most(there, :places),
          queue: there.sum { |one| one.figures[:waiting] }, queue_most: most(there, :queue_most) }
      end

      # Of all workers that say it: one that boots has none yet.
      def most(workers, name)
        known = workers.filter_map { |one| one.process[:places] && one.process }
        known.sum { |one| one[name] } if known.any? && known.all? { |one| one[name] }
      end

      def machine
        sample = @look.now.machine
        shares = sample.processes.keys.filter_map { |pid| @look.cpu(pid) }
        { cpu: shares.empty? ? nil : shares.sum, cpu_most: sample.processors * 100, throttled: @look.throttled,
          memory: sample.memory, memory_most: sample.memory_limit, pressure: sample.pressure }
      end

      def means = @look.means.select { |state, mean| FIRST.include?(state) || USUAL.include?(state) || mean >= 0.05 }

      def first(ascii)
        figures = to_h
        name = ["abaca", figures[:version], figures[:tag]].compact.map { |word| Text.safe(word, ascii:) }.join(" ")
        [Piece.new(Text.cut(name, 30)), Piece.new("up #{Units.text(figures[:up], :span)}"), ready, stopped,
         Piece.new("#{Units.text(figures[:rate], :rate)} r/s"), rejections, latencies, failures].compact
      end

      def ready
        ready, all = to_h.values_at(:ready, :workers)
        Piece.new("#{ready}/#{all} #{all == 1 ? 'worker' : 'workers'}", ready < all ? :alarm : nil)
      end

      def stopped
        pids = to_h[:stopped]
        Piece.new("stopped: #{pids.first(4).join(' ')}", :alarm) if pids.any?
      end

      def latencies
        Piece.new(%i[p50 p95 p99].map { |name| "#{name} #{Units.text(to_h[name], :seconds)}" }.join(" "))
      end

      def rejections
        rate, reasons = to_h.values_at(:rejected, :reasons)
        Piece.new("rejected #{Units.text(rate, :rate)} r/s #{reasons.join(", ")}", :alarm) if reasons.any?
      end

      def failures
        share = to_h[:failed]
        Piece.new("5xx #{Units.text(share, :percent)}%", share >= 1 ? :alarm : nil)
      end

      def second
        figures = to_h
        throttled, pressure = figures.values_at(:throttled, :pressure)
        [limited("in app", :in_app, :places, :count), limited("queue", :queue, :queue_most, :count),
         limited("cpu", :cpu, :cpu_most, :share), *(throttle(throttled) if throttled),
         limited("mem", :memory, :memory_most, :bytes), *worst(pressure)]
      end

      def throttle(share) = Piece.new("throttled #{Units.text(share, :percent)}%", share >= 1 ? :alarm : nil)

      # "psi io 0.3": what is waited for most.
      def worst(pressure)
        name, share = pressure.max_by(&:last)
        if name
          [Piece.new("psi #{name} #{Units.text(share, :percent)}", share >= 20 ? :alarm : nil)]
        else
          []
        end
      end

      def limited(name, key, limit, unit)
        value, most = to_h.values_at(key, limit)
        near = value && most&.positive? && value >= NEAR * most
        texts = [value, most].map { |one| unit == :share ? one&.then { "#{one.round}%" } : Units.text(one, unit) }
        Piece.new("#{name} #{texts.first || '-'}#{"/#{texts.last}" if most}", near ? :alarm : nil)
      end

      def states
        means = to_h[:states]
        own, others = [FIRST, [*USUAL, *(means.keys - FIRST - USUAL)]].map do |names|
          names.map { |name| Piece.new("#{name} #{mean(means.fetch(name, 0.0))}") }
        end
        [Piece.new("state"), *own, Piece.new("|"), *others]
      end

      # Most are nothing most of the time.
      def mean(value) = value < 0.05 ? "0" : Units.text(value, :mean)
    end
  end
end
