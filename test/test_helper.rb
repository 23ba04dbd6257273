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

# A test that hangs ends the process with the stacks of all threads, in Ruby and in C, and of all processes that it has
# started: whatever it waited for would spoil the tests after it. One thread watches all tests. TEST_DEADLINE is the
# number of seconds that one test may take, which is more than a busy machine needs.
module Deadline
  SECONDS = Float(ENV.fetch("TEST_DEADLINE", "240"))

  @lock = Mutex.new
  @limit = nil

  def self.now = Process.clock_gettime(Process::CLOCK_MONOTONIC)

  # Runs the block, which may take this many seconds.
  def self.watch(name, seconds)
    @lock.synchronize do
      @name = name
      @seconds = seconds
      @limit = now + seconds
    end
    yield
  ensure
    @lock.synchronize { @limit = nil }
  end

  def self.check
    @lock.synchronize { give_up if @limit && now > @limit }
  end

  def self.give_up
    require_relative "stacks"
    warn "#{@name} took longer than #{@seconds.round} s", Stacks.here, Stacks.of(Stacks.family)
    Process.kill(:KILL, Process.pid)
  end
  private_class_method :give_up

  Thread.new do
    loop do
      sleep 0.25
      check
    end
  end

  # Around each test, with its setup and teardown.
  module Around
    def run = Deadline.watch("#{self.class}##{name}", deadline_seconds) { super }

    # More for a test that compiles.
    def deadline_seconds = SECONDS
  end
  Minitest::Test.prepend(Around)
end

# The processor time of each file, its own and that of the processes that it has waited for, for who runs many
# (Folders). A file's tests are not in one piece: Minitest mixes those of all classes.
module CpuTime
  @seconds = Hash.new(0.0)
  @pid = Process.pid

  def self.spent = Process.times.sum

  def self.charge(file, seconds)
    @seconds[file] += seconds
  end

  # Folders shows the sum of each file.
  def self.report
    return unless @pid == Process.pid

    root = "#{File.expand_path("..", __dir__)}/"
    @seconds.each { |file, seconds| puts "CPU #{seconds.round(2)} #{file.delete_prefix(root)}" }
  end

  # Around each test.
  module Around
    def run
      before = CpuTime.spent
      super
    ensure
      CpuTime.charge(Object.const_source_location(self.class.name)&.first.to_s, CpuTime.spent - before)
    end
  end
  Minitest::Test.prepend(Around)
  Minitest.after_run { report }
end
