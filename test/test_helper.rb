# frozen_string_literal: true

# What every Ruby test needs: minitest, temporary folders, ways to wait, what the platform may lack, and a deadline.
require "minitest/autorun"
require "tmpdir"
require_relative "support/platform_needs"
require_relative "support/waits"

Minitest::Test.include(PlatformNeeds, Waits)
# Servers of tests are in development, and print no link, unless a test says so.
ENV["ABACA_DASHBOARD"] ||= "false"

# What tests start finds the gems of this process without Bundler, which would take 0.4 s of processor time each time to
# find the same. What is about a bundle gets the variables as they were.
module Bundle
  VARIABLES = %w[RUBYOPT RUBYLIB GEM_PATH].freeze
  # They as they were, nil for those that were not set.
  OUTER = VARIABLES.to_h { |name| [name, ENV.fetch(name, nil)] }.freeze

  ENV["RUBYOPT"] = OUTER["RUBYOPT"].to_s.split.grep_v(%r{\A-r.*bundler/setup\z}).join(" ")
  ENV["RUBYLIB"] = ($LOAD_PATH.first(Gem.load_path_insert_index) - [__dir__]).join(File::PATH_SEPARATOR)
  ENV["GEM_PATH"] = Gem.path.join(File::PATH_SEPARATOR)
end

# A test that hangs fails with the place where it hangs, instead of stopping the run. One thread watches all tests.
# TEST_DEADLINE is the number of seconds that one test may take.
module Deadline
  SECONDS = Float(ENV.fetch("TEST_DEADLINE", "60"))

  # No `rescue => e` of a test or of an app swallows it.
  class Passed < Exception; end # rubocop:disable Lint/InheritException

  @lock = Mutex.new
  @limit = nil

  def self.now = Process.clock_gettime(Process::CLOCK_MONOTONIC)

  # Runs the block; raises Passed in it when it takes longer.
  def self.watch(seconds)
    @lock.synchronize do
      @thread = Thread.current
      @seconds = seconds
      @limit = now + seconds
    end
    yield
  ensure
    @lock.synchronize { @limit = nil }
  end

  def self.check
    @lock.synchronize do
      next unless @limit && now > @limit

      @limit = nil
      @thread.raise(Passed, "the test took longer than #{@seconds} s")
    end
  end

  Thread.new do
    loop do
      sleep 0.25
      check
    end
  end

  # Around each test, with its setup and teardown.
  module Around
    def run = Deadline.watch(deadline_seconds) { super }

    # More for a test that compiles.
    def deadline_seconds = SECONDS
  end
  Minitest::Test.prepend(Around)
end
