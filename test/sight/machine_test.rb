# frozen_string_literal: true

require "test_helper"
require "fileutils"
require "abaca"

# What the kernel says of processes and their cgroup, from files that a test makes.
class SightMachineTest < Minitest::Test
  Sight = Abaca::Sight
  MB = 1024 * 1024

  def setup
    @root = Dir.mktmpdir("root")
    file("proc/meminfo", "MemTotal:       16384000 kB\nMemFree: 1 kB\n")
    file("proc/pressure/io", "some avg10=4.50 avg60=0 avg300=0 total=0\nfull avg10=0 avg60=0 avg300=0 total=0\n")
  end

  def teardown = FileUtils.remove_entry(@root)

  def file(path, text)
    path = File.join(@root, path)
    FileUtils.mkdir_p(File.dirname(path))
    File.write(path, text)
  end

  # A process that has computed for `cpu` seconds.
  def process(pid, cpu: 0, state: "S", pss: 10, anonymous: 5, cgroup: "/")
    ticks = (cpu * Etc.sysconf(Etc::SC_CLK_TCK)).to_i
    file("proc/#{pid}/stat", "#{pid} (ruby) ) S) #{state} 1 1 1 0 -1 0 0 0 0 0 #{ticks} 0 " \
                             "0 0 20 0 9 0 500 99999 256 0\n")
    file("proc/#{pid}/smaps_rollup", "000-fff ---p 00 00:00 0 [rollup]\nRss: 1 kB\nPss: #{pss * 1024} kB\n" \
                                     "Pss_Anon: 1 kB\nAnonymous:   #{anonymous * 1024} kB\n")
    file("proc/#{pid}/cgroup", "1:name=systemd:/x\n0::#{cgroup}\n")
  end

  def files = Sight::ProcessFiles.new(root: @root)

  def test_a_process
    process(7, cpu: 1.5, state: "T")
    assert_equal ["T", 1.5, 256 * Etc.sysconf(Etc::SC_PAGESIZE)], files.sample(7).to_a
    assert_equal [10 * MB, 5 * MB], files.memory(7).to_a
    assert_nil files.sample(8)
    assert_nil files.memory(8)
  end

  def test_its_title
    file("proc/7/cmdline", "abaca 0.4.0 (tcp://0.0.0.0:80,unix:///a (b)) [my app]\0\0")
    file("proc/8/cmdline", "ruby\0exe/abaca\0")
    assert_equal({ version: "0.4.0", tag: "my app" }, files.title(7).then { |title| title.merge(tag: title[:tag]) })
    assert_equal [{}, {}], [files.title(8), files.title(9)]
  end

  def test_this_process
    need_platform(:proc)
    sample = Sight::ProcessFiles.new.sample(Process.pid)
    assert_includes 0.01..3600, sample.cpu
    assert_operator sample.rss, :>, MB
    assert_operator Sight::ProcessFiles.new.memory(Process.pid).anonymous, :>, MB
  end

  # The nearest limit holds, wherever it stands.
  def test_limits_of_a_cgroup
    file("sys/fs/cgroup/a/cpu.max", "50000 100000\n")
    file("sys/fs/cgroup/a/memory.max", "#{300 * MB}\n")
    file("sys/fs/cgroup/a/b/cpu.max", "max 100000\n")
    file("sys/fs/cgroup/a/b/cpu.stat", "usage_usec 5\nnr_throttled 2\nthrottled_usec 2500000\n")
    file("sys/fs/cgroup/a/b/memory.max", "max\n")
    file("sys/fs/cgroup/a/b/memory.current", "#{200 * MB}\n")
    file("sys/fs/cgroup/a/b/memory.stat", "anon 1\ninactive_file #{50 * MB}\n")
    file("sys/fs/cgroup/a/b/cpu.pressure", "some avg10=1.25 avg60=0 avg300=0 total=0\n")
    group = Sight::Cgroup.new("/a/b", root: @root)
    assert_equal [0.5, 2.5, 150 * MB, 300 * MB], [group.processors, group.throttled, group.memory, group.memory_limit]
    assert_equal({ cpu: 1.25, io: 4.5 }, group.pressure)
  end

  def test_without_cgroups
    group = Sight::Cgroup.new(nil, root: @root)
    assert_equal [Etc.nprocessors.to_f, nil, nil, nil],
                 [group.processors, group.throttled, group.memory, group.memory_limit]
  end

  def test_a_cgroup_outside_of_the_namespace
    file("sys/fs/cgroup/memory.max", "1000\n")
    file("sys/fs/cgroup/memory.current", "10\n")
    group = Sight::Cgroup.new("/../../other", root: @root)
    assert_equal [10, 1000], [group.memory, group.memory_limit]
  end

  def test_memory_is_read_each_ten_seconds
    process(7)
    machine = Sight::Machine.new(root: @root)
    machine.sample([7], 100.0)
    process(7, pss: 30)
    assert_equal 10 * MB, machine.sample([7], 109.0).memory
    assert_equal [30 * MB, 16_384_000 * 1024], machine.sample([7], 110.1).to_h.values_at(:memory, :memory_limit)
    assert_equal 30 * MB, machine.memory_of(7).pss
    assert_empty machine.sample([], 120.0).processes
    assert_nil machine.memory_of(7)
  end

  def test_memory_that_grows
    machine = Sight::Machine.new(root: @root)
    10.times do |i|
      process(7, anonymous: 5 + i)
      machine.sample([7], i * 10.0)
      assert_nil machine.growth_of(7) if i < 5
    end
    assert_in_delta MB / 10.0, machine.growth_of(7), 1
  end

  def test_a_trend_forgets
    trend = Sight::Trend.new
    400.times { |i| trend.add(i, 1000 - i) }
    400.times { |i| trend.add(400 + i, 5) }
    assert_in_delta 0, trend.slope
    flat = Sight::Trend.new
    10.times { flat.add(1.0, 5) }
    assert_nil flat.slope
  end
end
