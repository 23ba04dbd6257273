# frozen_string_literal: true

module Abaca
  # The table of gems.
  class FiberSafety
    # A gem that behaves differently on fibers than on threads.
    #
    # name:: of the gem
    # constant:: that is defined when the gem is loaded
    # versions:: Gem::Requirement, or nil for all
    # rubies:: Gem::Requirement of Ruby itself, or nil for all
    # trouble:: what happens, a clause
    # remedy:: what to do instead of serving with threads, a clause, or nil
    Row = Struct.new(:name, :constant, :versions, :rubies, :trouble, :remedy, keyword_init: true) do
      # @param version [Gem::Version, nil] of the gem, where it is known
      # @param ruby [Gem::Version]
      # @return [Boolean] whether it applies to these versions
      def for?(version, ruby)
        return false if versions && !(version && versions.satisfied_by?(version))

        rubies.nil? || rubies.satisfied_by?(ruby)
      end
    end

    BULLET = "its findings belong to the thread: requests get each other's"
    private_constant :BULLET

    # "Keeps the thread" means that it gives up Ruby's lock, so other threads run meanwhile, but does not ask the
    # fiber scheduler, so no other fiber of the loop does.
    #
    # Each comment says which version was read, and where; docs/fiber_safety.md says more.
    GEMS = [
      # 0.5.7: client.c waits for the first byte of an answer by rb_wait_for_single_fd; connecting, sending, reading
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
      # 8.1.0 and 8.3.1: bullet.rb. Seen with 8.3.1 to be mixed on Ruby 3.1, and separate on 3.4.
      { name: "bullet", constant: "Bullet", versions: "< 8.3.1", trouble: BULLET,
        remedy: "use bullet 8.3.1 on Ruby 3.2" },
      { name: "bullet", constant: "Bullet", versions: ">= 8.3.1", rubies: "< 3.2", trouble: BULLET,
        remedy: "use Ruby 3.2" },
      # 2.26.0: socket.rb waits by Kernel.select, which Ruby 3.1 does not hand over. 15 commands of 0.1 s: 1.5 s.
      { name: "mongo", constant: "Mongo::Client", rubies: "< 3.2",
        trouble: "commands keep the thread and all its fibers", remedy: "use Ruby 3.2" }
    ].map do |row|
      requirements = row.slice(:versions, :rubies).transform_values { |text| Gem::Requirement.new(text) }
      Row.new(**row, **requirements).freeze
    end.freeze
  end
end
