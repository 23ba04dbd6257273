# frozen_string_literal: true

# also: sanitized rubies

require "test_helper"
require "support/scheduler_case"
require "support/shim"
require "fileutils"
require "json"

# Name lookups next to a DNS that does not answer. The lookups hang until the file "over" exists.
class NamesTest < Minitest::Test
  include SchedulerCase
  include Shim

  # More than a scheduler has threads for.
  HANGING = 60

  def setup
    super
    @hosts = File.exist?("/etc/hosts") ? File.read("/etc/hosts").gsub(/#.*/, "") : ""
    skip "/etc/hosts does not list localhost" unless @hosts.match?(/\blocalhost\b/)
    @directory = Dir.mktmpdir("abaca")
  end

  def teardown
    super
    FileUtils.rm_rf(@directory) if @directory
  end

  # Starts the lookups that hang, then runs `code` in a fiber, then lets the lookups end. Returns what was done, in its
  # order: the code adds to `done`.
  def beside_hanging_lookups(code, limit: nil)
    script = <<~RUBY
      require "abaca/scheduler"
      require "json"
      require "timeout"
      Dir.chdir(#{@directory.dump})
      done = []
      Thread.new do
        Fiber.set_scheduler(scheduler = Abaca::Scheduler.new)
        #{HANGING}.times do |i|
          Fiber.schedule do
            Timeout.timeout(#{limit.inspect}) { scheduler.address_resolve("name\#{i}.test") }
            done << "hanging"
          rescue Timeout::Error
            done << "given up"
          end
        end
        Fiber.schedule do
          #{code}
        ensure
          File.write("over", "")
        end
        scheduler.run
      end.join
      puts JSON.generate(done)
    RUBY
    status, out, err = with_shim("slow_dns") { run_ruby(script) }
    assert_predicate status, :success?, err
    JSON.parse(out)
  end

  def test_localhost_does_not_wait_behind_hanging_lookups
    done = beside_hanging_lookups('done << scheduler.address_resolve("localhost")')
    refute_empty ["127.0.0.1", "::1"] & done.first
    assert_equal ["hanging"] * HANGING, done.drop(1)
  end

  def test_every_name_of_the_hosts_file_is_found_beside_hanging_lookups
    names = @hosts.lines.flat_map { |line| line.split.drop(1) }.uniq - ["localhost"]
    skip "/etc/hosts lists only localhost" if names.empty?
    done = beside_hanging_lookups("#{names}.each { |name| done << scheduler.address_resolve(name) }")
    assert_equal HANGING + names.size, done.size
    done.first(names.size).each { |addresses| assert_kind_of Array, addresses }
  end

  def test_numbers_that_only_the_c_library_reads
    done = beside_hanging_lookups("%w[127.1 fe80::1%lo].each { |text| done << scheduler.address_resolve(text) }")
    assert_equal [["127.0.0.1"], ["fe80::1%lo"]], done.first(2)
  end

  # Their threads still wait for the DNS.
  def test_localhost_does_not_wait_behind_lookups_that_were_given_up
    done = beside_hanging_lookups(<<~RUBY, limit: 0.01)
      sleep 0.01 until done.size == #{HANGING}
      done << scheduler.address_resolve("localhost")
    RUBY
    assert_equal ["given up"] * HANGING, done.first(HANGING)
    refute_empty ["127.0.0.1", "::1"] & done.last
  end

  def test_other_names_are_found_when_the_lookups_end
    done = beside_hanging_lookups(<<~RUBY)
      File.write("over", "")
      done << scheduler.address_resolve("no-such-name.invalid")
    RUBY
    assert_includes done, nil
    assert_equal HANGING, done.count("hanging")
  end
end
