# frozen_string_literal: true

module Soak
  # The configuration file of a server under load.
  module Settings
    PLAIN_SCHEDULER = File.expand_path("../support/plain_scheduler", __dir__)
    MODES = {
      fiber: "",
      thread: "mode :thread\n",
      hybrid: "mode :hybrid\n",
      guest: "require #{PLAIN_SCHEDULER.inspect}\nfiber_scheduler \"PlainScheduler\"\n"
    }.freeze
    # Patience that is short enough for an hour to hold many faults.
    COMMON = "max_fibers 400\nheader_timeout 1\ncancel_on_disconnect\n"
    # A report has a backtrace, for whose objects each a collection runs. A window of collections may last longer than
    # a request waits for its place.
    STRESS = "request_timeout 40\nqueue_timeout 40\ntls_handshake_timeout 40\nstall_report 0\n"
    PLAIN = "request_timeout 10\n"

    # @param mode [Symbol] one of MODES
    # @param stress [Boolean] whether every allocation may take 20 ms
    # @return [String]
    def self.text(mode, stress:) = "#{COMMON}#{stress ? STRESS : PLAIN}#{MODES.fetch(mode)}"
  end
end
