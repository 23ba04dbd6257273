# frozen_string_literal: true

require "test_helper"
require "tmpdir"
require "fileutils"
require "abaca"
require_relative "exposition"

# What /metrics says of a cgroup: of folders that look like the kernel's.
class MetricsMachineTest < Minitest::Test
  def setup = @root = Dir.mktmpdir
  def teardown = FileUtils.rm_rf(@root)

  def write(path, text)
    file = File.join(@root, path)
    FileUtils.mkdir_p(File.dirname(file))
    File.write(file, text)
  end

  def scrape(machine = Abaca::Metrics::Machine.new(root: @root))
    text = Abaca::Metrics::Text.new
    machine.write(text, {})
    text.to_s
  end

  def limited(folder)
    write "#{folder}/cpu.stat", "usage_usec 9\nnr_throttled 3\nthrottled_usec 2500000\n"
    write "#{folder}/memory.current", "4096\n"
    write "#{folder}/memory.max", "8192\n"
    write "#{folder}/memory.events", "low 0\nhigh 0\nmax 7\noom 4\noom_kill 2\noom_group_kill 0\n"
    %w[cpu memory io].each do |resource|
      write "#{folder}/#{resource}.pressure", "some avg10=0.00 avg60=0.00 avg300=0.00 total=1500000\n" \
                                              "full avg10=0.00 avg60=0.00 avg300=0.00 total=250000\n"
    end
  end

  def check(found)
    assert_equal 2.5, found["abaca_cgroup_cpu_throttled_seconds_total"]
    assert_equal 4096, found["abaca_cgroup_memory_bytes", kind: "current"]
    assert_equal 8192, found["abaca_cgroup_memory_bytes", kind: "max"]
    assert_equal 2, found["abaca_oom_kills_total"]
    assert_equal 6, found.samples["abaca_pressure_seconds_total"].size
    assert_equal 1.5, found["abaca_pressure_seconds_total", resource: "io", kind: "some"]
    assert_equal 0.25, found["abaca_pressure_seconds_total", resource: "cpu", kind: "full"]
  end

  def test_a_cgroup
    write "proc/self/cgroup", "0::/app.slice/web.service\n"
    limited "sys/fs/cgroup/app.slice/web.service"
    check(Exposition.new(scrape))
  end

  # As in a container: the root of its own namespace, or one whose path leads out of it.
  def test_the_root_of_a_namespace
    limited "sys/fs/cgroup"
    %w[/ /../../other].each do |path|
      write "proc/self/cgroup", "0::#{path}\n"
      check(Exposition.new(scrape))
    end
  end

  def test_without_limits
    write "proc/self/cgroup", "0::/\n"
    write "sys/fs/cgroup/memory.current", "4096\n"
    write "sys/fs/cgroup/memory.max", "max\n"
    write "sys/fs/cgroup/cpu.stat", "usage_usec 9\n"
    found = Exposition.new(scrape)
    assert_equal({ { kind: "current" } => 4096 }, found.samples["abaca_cgroup_memory_bytes"])
    assert_equal %w[abaca_cgroup_memory_bytes], found.types.keys
  end

  # Version 1, or both: the folder of version 2 has no controllers, or none of its own.
  def test_other_systems
    assert_equal "", scrape
    write "proc/self/cgroup", "4:memory:/x\n2:cpu:/x\n0::/\n"
    write "sys/fs/cgroup/memory/x/memory.limit_in_bytes", "4096\n"
    write "sys/fs/cgroup/unified/cgroup.procs", "1\n"
    assert_equal "", scrape
    write "proc/self/cgroup", ""
    assert_equal "", scrape
  end
end
