# frozen_string_literal: true

module Abaca
  class FiberSafety
    # A gem that does not do on fibers what it does on threads.
    #
    # name:: of the gem
    # constant:: that is defined when the gem is loaded
    # versions:: Gem::Requirement, or nil for all
    # rubies:: Gem::Requirement of Ruby itself, or nil for all
    # trouble:: what happens, a clause
    # remedy:: what to do instead of serving with threads, a clause, or nil
    # threads:: false when threads do not help
    Row = Struct.new(:name, :constant, :versions, :rubies, :trouble, :remedy, :threads, keyword_init: true) do
      # @param version [Gem::Version, nil] of the gem, where it is known
      # @param ruby [Gem::Version]
      # @return [Boolean] whether it concerns these versions
      def for?(version, ruby)
        return false if versions && !(version && versions.satisfied_by?(version))

        rubies.nil? || rubies.satisfied_by?(ruby)
      end
    end

    # "Keeps the thread" means: without Ruby's lock, so that threads run meanwhile, but without asking the fiber
    # scheduler, so that no other fiber of the loop does.
    #
    # Each comment says which version was read, and where; docs/fiber_safety.md says more.
    GEMS = [
      # 0.7.0: rack/timeout/core.rb calls Thread#raise, and knows no fibers. Seen to end the server.
      { name: "rack-timeout", constant: "Rack::Timeout",
        trouble: "what it raises when a request takes too long hits whichever is at work, or ends the server",
        remedy: "use request_timeout (docs/deadlines.md)" },
      # 1.7.3 and 2.x: statement.c steps with the GVL held. Seen with 1.7.3: see docs/fiber_safety.md.
      { name: "sqlite3", constant: "SQLite3::Database",
        trouble: "every query keeps all fibers and threads waiting, and so does busy_timeout for a locked database",
        remedy: "keep queries short, and wait for locks by busy_handler_timeout (sqlite3 2.0 with Rails 8)",
        threads: false },
      # 0.5.7: client.c waits for the first octet of an answer by rb_wait_for_single_fd; connecting, sending, reading
      # the rest and prepared statements (nogvl_* in client.c, result.c, statement.c) do not.
      { name: "mysql2", constant: "Mysql2::Client",
        trouble: "connecting, large results and prepared statements keep the thread and all its fibers",
        remedy: "use trilogy, whose waits let other fibers run" },
      # 1.3.0 routed all waits through the scheduler, says its History.
      { name: "pg", constant: "PG::Connection", versions: "< 1.3",
        trouble: "queries keep the thread and all its fibers", remedy: "use pg 1.3 or later" },
      # 3.4.1: result.c (dbsqlok and others below rb_thread_call_without_gvl).
      { name: "tiny_tds", constant: "TinyTds::Client", trouble: "queries keep the thread and all its fibers" },
      # 3.1.3: common.c, gvl_call.
      { name: "extralite", constant: "Extralite::Database", trouble: "queries keep the thread and all its fibers" },
      # 0.31.0: hiredis_connection.c (poll below rb_thread_call_without_gvl).
      { name: "hiredis-client", constant: "RedisClient::HiredisConnection",
        trouble: "commands keep the thread and all its fibers", remedy: "use its driver in Ruby (driver: :ruby)" },
      # 0.19.1: curls/functions.rb calls curl_easy_perform as a blocking function of FFI.
      { name: "ethon", constant: "Ethon::Easy", trouble: "requests (Typhoeus's too) keep the thread and all its fibers",
        remedy: "use Net::HTTP or another client in Ruby" },
      # The changelog of 1.2.0.
      { name: "curb", constant: "Curl::Easy", versions: "< 1.2",
        trouble: "requests keep the thread and all its fibers", remedy: "use curb 1.2 or later" },
      # rb_completion_queue.c: grpc_rb_completion_queue_pluck_no_gil.
      { name: "grpc", constant: "GRPC::Core::Call", trouble: "calls keep the thread and all its fibers" },
      # 3.1.22: bcrypt_ext.c, bc_crypt_nogvl. What it computes takes 0.19 s at its usual cost.
      { name: "bcrypt", constant: "BCrypt::Engine",
        trouble: "checking a password keeps the thread and all its fibers for some 0.2 seconds" },
      # 1.14.8 and 1.15.2: i18n.rb, `config`. 1.15 uses Fiber[] where there is one, from Ruby 3.2.
      { name: "i18n", constant: "I18n", versions: "= 1.14.8",
        trouble: "the locale belongs to the thread: requests at the same time see each other's",
        remedy: "use i18n 1.15 on Ruby 3.2 or later" },
      { name: "i18n", constant: "I18n", versions: ">= 1.15", rubies: "< 3.2",
        trouble: "the locale belongs to the thread: requests at the same time see each other's",
        remedy: "use Ruby 3.2 or later, or i18n 1.14.7" },
      # 9.0.3 to 9.0.11: threaded.rb; 9.1 follows ActiveSupport's isolation level.
      { name: "mongoid", constant: "Mongoid::Threaded", versions: ["> 9.0.0", "< 9.1"],
        trouble: "scopes and sessions belong to the thread: requests at the same time see each other's",
        remedy: "use mongoid 9.1 with the isolation level :fiber" },
      # 7.2.3 to 8.4.1: chewy.rb, `current`.
      { name: "chewy", constant: "Chewy::Strategy", versions: ">= 7.2.3",
        trouble: "the strategy belongs to the thread: requests at the same time see each other's" }
    ].map do |row|
      requirements = row.slice(:versions, :rubies).transform_values { |text| Gem::Requirement.new(text) }
      Row.new(threads: true, **row, **requirements).freeze
    end.freeze
  end
end
