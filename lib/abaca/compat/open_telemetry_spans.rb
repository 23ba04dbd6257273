# frozen_string_literal: true

module Abaca
  module Compat
    # The gem opentelemetry-sdk (tried with 1.10 and 1.13): the span of a request says what the request has spent its
    # time with, and the request to which trace it belongs (docs/metrics.md). Instrumentations end that span at
    # different moments, some when the body is closed, some when the app has returned. It is told at its own end, which
    # is the last moment at which it takes attributes.
    #
    # It has to end where its request runs: on the request's fiber, on which the server calls the app, the body's `each`
    # and `close`, and `rack.response_finished`.
    module OpenTelemetrySpans
      # For spans. Those of other kinds cost a comparison.
      module Finish
        def finish(end_timestamp: nil)
          OpenTelemetrySpans.tell(self) if kind == :server && recording?
          super
        end
      end
      private_constant :Finish

      class << self
        def adapt(config, _log)
          ::OpenTelemetry::SDK::Trace::Span.prepend(Finish) if config[:opentelemetry]
          nil
        end

        # @param span [OpenTelemetry::SDK::Trace::Span] that is about to end
        # @return [nil]
        def tell(span)
          times = Engine.request_times or return
          context = span.context
          Engine.trace(context.trace_id, context.span_id, context.trace_flags.sampled?)
          span.add_attributes(times.to_h { |state, time| ["abaca.wait.#{state}_ms", (time * 1e3).round(3)] })
          nil
        end
      end
    end
  end
end
