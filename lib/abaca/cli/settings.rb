# frozen_string_literal: true

module Abaca
  class CLI
    # Settings of a configuration file that are flags as well, since operators change them from one start to
    # the next: `max_queue` is --max-queue. Config checks the values.
    module Settings
      # Headlines, and below each of them what a flag takes and says; nil: it is a switch.
      FLAGS = {
        "Requests at once (docs/overload.md):" => {
          max_fibers: ["N", "Requests that may be in the app (default #{Config::Admission::MAX_FIBERS})"],
          max_queue: ["N", "Requests that may wait until then; 503 beyond"],
          queue_timeout: ["SECONDS", "Requests that wait longer: 503; 0: none"]
        },
        "Deadlines (docs/deadlines.md, docs/signals.md):" => {
          request_timeout: ["SECONDS", "Requests that take longer: 504; 0: none"],
          cancel_on_disconnect: [nil, "End a request's work when its client has gone"],
          shutdown_timeout: ["SECONDS", "What requests may take after a stop; forever, immediately"],
          shutdown_delay: ["SECONDS", "Go on for so long before a stop, not ready any more"],
          idle_timeout: ["SECONDS", "Stop when nobody has come for so long; 0: never"],
          readiness: ["PATH", "Answer 200 here, and 503 from a stop on"],
          liveness: ["PATH", "Answer 200 here"]
        },
        "Requests that compute (docs/stalls.md; times are milliseconds):" => {
          quantum: ["MS", "Fibers that compute for longer make room; 0: never (default)"],
          spare_loops: ["N", "Loops that may take over while one is held up; 0: none"],
          stall_after: ["MS", "A loop without a turn for longer is held up; 0: never"],
          stall_report: ["MS", "Name in the log who holds a loop up for longer; 0: nobody"],
          gvl_wait_target: ["MS", "Wait no longer for Ruby's lock; 0: as Ruby has it"],
          hybrid_threshold: ["MS", "Hybrid routes that keep the loop for longer get threads"],
          hybrid_requests: ["N", "Requests from which on that is judged"]
        },
        "Clients (docs/limits.md has more, as settings of the configuration file):" => {
          header_timeout: ["SECONDS", "A head that takes longer: 408"],
          body_timeout: ["SECONDS", "A body without progress for longer: 408"],
          write_timeout: ["SECONDS", "Who takes nothing of a response for longer: closed"],
          persistent_timeout: ["SECONDS", "A kept connection without requests for longer: closed"],
          max_body_size: ["OCTETS", "A longer request body: 413; 0: any"]
        }
      }.freeze

      # What stands for values that are no numbers.
      WORDS = { shutdown_timeout: { "forever" => nil, "immediately" => 0.0 } }.freeze

      private_constant :FLAGS, :WORDS

      private

      def settings(words)
        FLAGS.each do |headline, flags|
          words.separator("\n#{headline}")
          flags.each { |name, (value, text)| setting(words, name, value, text) }
        end
      end

      def setting(words, name, value, text)
        flag = name.to_s.tr("_", "-")
        default = Config::DEFAULTS[name]
        text += " (default #{default.to_s.delete_suffix('.0')})" if default.is_a?(Numeric)
        words.on(value ? "--#{flag} #{value}" : "--[no-]#{flag}", text) do |given|
          @settings[name] = WORDS.fetch(name, {}).fetch(given, given)
        end
      end
    end
  end
end
