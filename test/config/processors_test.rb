# frozen_string_literal: true

require "test_helper"
require "abaca"

# What `workers :auto` counts, with the kernel's files as a cgroup would show them.
class ProcessorsTest < Minitest::Test
  MB = 1024 * 1024

  # Workers on eight processors, with these files below the root; a line of /proc/self/cgroup comes first.
  def workers(line, files = {}, env: {})
    Dir.mktmpdir do |root|
      files = files.transform_keys { |name| "sys/fs/cgroup/#{name}" }
      files["proc/self/cgroup"] = line if line
      files.each do |name, text|
        path = File.join(root, name)
        FileUtils.mkdir_p(File.dirname(path))
        File.write(path, "#{text}\n")
      end
      Abaca::Config::Processors.new(root:, affinity: 8, env:).workers
    end
  end

  def test_affinity_alone
    assert_equal 8, workers(nil)
    assert_equal 8, workers("0::/")
    assert_equal 8, workers("0::/app", { "app/cpu.max" => "max 100000", "app/memory.max" => "max" })
  end

  def test_quota_is_rounded_up
    assert_equal 2, workers("0::/", { "cpu.max" => "150000 100000" })
    assert_equal 2, workers("0::/", { "cpu.max" => "200000 100000" })
    assert_equal 1, workers("0::/", { "cpu.max" => "10000 100000" })
    assert_equal 8, workers("0::/", { "cpu.max" => "6400000 100000" })
  end

  def test_the_least_of_all_that_are_above
    files = { "a/b/c/cpu.max" => "max 100000", "a/b/cpu.max" => "300000 100000", "a/cpu.max" => "500000 100000",
              "other/cpu.max" => "100000 100000" }
    assert_equal 3, workers("0::/a/b/c", files)
    assert_equal 2, workers("0::/a/b/c", files.merge("cpu.max" => "50000 25000"))
  end

  def test_memory_caps
    assert_equal 2, workers("0::/a", { "a/memory.max" => 512 * MB })
    assert_equal 2, workers("0::/a", { "a/memory.max" => 4096 * MB, "memory.max" => 700 * MB })
    assert_equal 1, workers("0::/a", { "a/memory.max" => 100 * MB })
    assert_equal 3, workers("0::/a", { "a/memory.max" => 4096 * MB, "a/cpu.max" => "300000 100000" })
  end

  def test_cgroups_of_version_1_are_ignored
    assert_equal 8, workers("4:memory:/app\n1:cpu:/app", { "app/cpu.max" => "100000 100000" })
    assert_equal 3, workers("1:cpu:/one\n0::/two", { "one/cpu.max" => "100000 100000", "two/cpu.max" => "3 1" })
  end

  # Its parents would be those of another cgroup.
  def test_a_cgroup_outside_the_namespace
    assert_equal 4, workers("0::/../app", { "app/cpu.max" => "100000 100000", "cpu.max" => "400000 100000" })
  end

  def test_files_that_make_no_sense
    assert_equal 8, workers("0::/", { "cpu.max" => "", "memory.max" => "much" })
    assert_equal 8, workers("0::/", { "cpu.max" => "100000 0" })
  end

  def test_the_variable
    assert_equal 12, workers("0::/", { "cpu.max" => "100000 100000" }, env: { "ABACA_CPUS" => "12" })
    assert_equal 8, workers("0::/", env: { "ABACA_CPUS" => "" })
    %w[0 -1 two 1.5].each do |text|
      error = assert_raises(Abaca::ConfigError) { workers("0::/", env: { "ABACA_CPUS" => text }) }
      assert_equal "ABACA_CPUS: a number from 1 is needed, not #{text.inspect}", error.message
    end
  end

  def test_this_machine
    assert_includes 1..Etc.nprocessors, Abaca::Config::Processors.new(env: {}).workers
    assert_equal Abaca::Config::Processors.new.workers, Abaca::Config.new({ workers: :auto })[:workers]
    assert_equal Abaca::Config::Processors.new.workers, Abaca::Config.new({ workers: "auto" })[:workers]
  end
end
