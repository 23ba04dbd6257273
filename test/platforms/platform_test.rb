# frozen_string_literal: true

require "test_helper"
require "fileutils"
require "minitest/mock"
require "tmpdir"
require "abaca"

# What a platform has, and what is said and done where it has not: in any build, as if all of it were lacking.
class PlatformTest < Minitest::Test
  Platform = Abaca::Platform
  NOTHING = Platform.new({ poller: "poll" }.merge(Platform::PARTS.transform_values { false }))
  EVERYTHING = Platform.new({ poller: "epoll" }.merge(Platform::PARTS.transform_values { true }))

  def on(platform, &) = Platform.stub(:here, platform, &)

  def warnings(settings) = Abaca::Config.new(settings).warnings.map { |line| line.sub(/\A\S+:\d+: /, "") }

  def banner(settings = {})
    log = Class.new { def self.info(line) = lines << line }
    log.define_singleton_method(:lines) { @lines ||= [] }
    Abaca::Launcher::Banner.new(Abaca::Config.new(settings)).show_head(log)
    log.lines.grep(/Platform|Restarts/)
  end

  # This machine's: Linux, or a build as if it were not.
  def test_here
    assert_equal [:poller, *Platform::PARTS.keys].sort, Platform::BUILD.keys.sort
    assert_predicate Platform::BUILD, :frozen?
    assert_includes [[], Platform::PARTS.keys], Platform.here.lacks
    assert_equal Platform.here.lacks.empty?, Platform.here.poller == "epoll"
  end

  def test_the_line_at_boot
    assert_empty on(EVERYTHING) { banner }
    assert_equal ["*     Platform: poll, without #{Platform::PARTS.values.join(', ')}"], on(NOTHING) { banner }
    some = Platform.new({ poller: "kqueue" }.merge(Platform::PARTS.to_h { |part, _| [part, part != :proc] }))
    assert_equal ["*     Platform: kqueue, without /proc"], on(some) { banner }
  end

  # docs/platforms.md says of each part where it was tried, and what is done without it.
  def test_the_page
    page = File.read(File.expand_path("../../docs/platforms.md", __dir__)).delete("`")
    features = page.scan(/^\| ([^|]+) \|/).flatten
    counts = Platform::PARTS.values.to_h { |name| [name, features.count { |feature| feature.include?(name) }] }
    assert_equal [2], counts.values.uniq, counts.to_s
  end

  # --- what a setting has asked for ---

  def test_fork_worker_without_subreapers
    settings = { workers: 2, fork_worker: 500, before_refork: [Abaca::Config::Hook.new(proc {}, name: :before_refork)] }
    on(EVERYTHING) do
      assert_empty warnings(settings)
      assert_predicate Abaca::Config.new(settings), :reforks?
      assert_equal ["*     Restarts: (✔) hot (✖) phased (✔) refork"], banner(settings)
    end
    on(NOTHING) do
      assert_equal ["`before_refork' is not called: there is no fork_worker",
                    "`fork_worker' has no effect: this platform has no subreapers (docs/platforms.md)"],
                   warnings(settings)
      refute_predicate Abaca::Config.new(settings), :reforks?
      assert_includes banner(settings), "*     Restarts: (✔) hot (✖) phased (✖) refork"
    end
  end

  def test_worker_max_memory_without_proc
    settings = { workers: 2, worker_max_memory: 1 }
    assert_empty on(EVERYTHING) { warnings(settings) }
    assert_equal ["`worker_max_memory' has no effect: this platform has no /proc (docs/platforms.md)"],
                 on(NOTHING) { warnings(settings) }
  end

  def test_abstract_sockets
    binds = { binds: [Abaca::Config::Bind.parse("unix://@app")], control_url: "unix://@control" }
    config = Abaca::Config.new(binds)
    mistakes = -> { Abaca::Launcher::Paths.new(config).mistakes.grep(/unix:/) }
    assert_empty on(EVERYTHING) { mistakes.call }
    lack = "this platform has no abstract sockets (docs/platforms.md)"
    assert_equal ["bind: cannot listen on unix://@app: #{lack}",
                  "control_url: cannot listen on unix://@control: #{lack}"], on(NOTHING) { mistakes.call }
  end

  # --- what is done without /proc ---

  def test_files_of_the_kernel
    assert_equal "/", EVERYTHING.root
    path = File.join(NOTHING.root, "proc/self/stat")
    assert_kind_of SystemCallError, assert_raises(SystemCallError) { File.read(path) }
    on(NOTHING) do
      pid = Process.pid
      files = Abaca::Sight::ProcessFiles.new
      assert_equal [nil, nil, nil, nil, {}], [files.sample(pid), files.memory(pid), files.cgroup(pid),
                                              files.machine_memory, files.title(pid)]
      sample = Abaca::Sight::Machine.new.sample([pid], 1.0)
      assert_equal [{}, nil, nil, Etc.nprocessors.to_f],
                   [sample.processes, sample.throttled, sample.memory, sample.processors]
      assert_equal [Etc.nprocessors, 1].max, Abaca::Config::Processors.new(env: {}).workers
      assert_equal 65_530 * 2 / 5, Abaca::Config.max_fibers_ceiling
      refute_empty Abaca::Launcher::Origin.new.words
      assert_empty metrics
    end
  end

  def test_the_title_of_a_server
    pid = fork do
      Process.setproctitle("abaca 1.2.3 (tcp://0.0.0.0:80) [my app]")
      sleep
    end
    [EVERYTHING, NOTHING].each do |platform|
      title = -> { on(platform) { Abaca::Sight::ProcessFiles.new.title(pid) } }
      assert eventually { title.call == { version: "1.2.3", tag: "my app" } }
    end
  ensure
    Process.kill(:KILL, pid) && Process.wait(pid)
  end

  def test_what_this_process_has_open
    File.open(File::NULL) do |file|
      known = NOTHING.descriptors
      assert_includes known, file.fileno
      assert_empty known - EVERYTHING.descriptors
      number = file.fileno
      file.close
      refute_includes NOTHING.descriptors, number
    end
  end

  def test_the_page_of_this_process
    page = Abaca::Page.create(slots: 3)
    on(NOTHING) do
      seen = Abaca::Page.of(Process.pid)
      page[1].claim
      assert_equal [3, Process.pid], [seen.size, seen[1].pid]
      assert_raises(Abaca::Error) { seen[1].beat }
      last = Abaca::Page.create(slots: 2)
      newest = Abaca::Page.of(Process.pid)
      assert_equal 2, newest.size
      [seen, newest, last, page].each(&:close)
      assert_match(/\Aprocess #{Process.pid} has no page/,
                   assert_raises(Abaca::Error) { Abaca::Page.of(Process.pid) }.message)
    end
  end

  def test_pages_of_servers
    with_files do |files, folder|
      File.write(File.join(folder, "1000000000"), "") # of a process that was killed
      page = Abaca::Page.create(slots: 3, path: files.own)
      path = File.join(folder, Process.pid.to_s)
      assert_equal [[path], 0o600], [Dir[File.join(folder, "*")], File.stat(path).mode & 0o777]
      worker = fork { page[2].claim && sleep }
      assert(eventually { page[2].pid == worker })
      assert_equal [path, path, [Process.pid]],
                   [Abaca::Page.place(Process.pid), Abaca::Page.place(worker), Abaca::Page.processes]
      seen = Abaca::Page.of(worker)
      assert_equal worker, seen[2].pid
      assert_match(/has no page/, assert_raises(Abaca::Error) { Abaca::Page.of(Process.ppid) }.message)
      [seen, page].each(&:close)
      files.remove
      assert_empty Dir.children(folder)
    ensure
      Process.kill(:KILL, worker) && Process.wait(worker) if worker
    end
  end

  # Somebody else may have made it.
  def test_a_folder_that_is_not_safe
    with_files do |files, folder|
      File.chmod(0o777, folder)
      File.write(File.join(folder, Process.pid.to_s), "")
      assert_equal [nil, {}, nil], [files.own, files.all, files.remove]
      refute_empty Dir.children(folder)
      FileUtils.rm_r(folder)
      File.symlink(Dir.tmpdir, folder)
      assert_nil files.own
    end
  end

  # A worker is not replaced for a memory that nobody knows, and a child of others stays.
  def test_what_a_master_looks_after
    on(NOTHING) do
      worker = Struct.new(:pid, :age) { def booted? = true }.new(Process.pid, 1)
      config = Abaca::Config.new({ workers: 2, worker_max_memory: 1 })
      assert_nil Abaca::Launcher::Cluster::Recycling.new(config, nil) { |one| one }.due([worker])
      children = Abaca::Launcher::Cluster::OtherChildren.new(nil)
      children.expect
      sleep children.due_in
      children.reap([])
      assert_nil children.due_in
    end
  end

  private

  # The folder of pages is one of this test's alone.
  def with_files
    Dir.mktmpdir do |directory|
      folder = File.join(directory, "pages")
      Dir.mkdir(folder, 0o700)
      on(NOTHING) { Abaca::Page::Files.stub(:folder, folder) { yield Abaca::Page::Files, folder } }
    end
  end

  # The lines of the kernel's figures.
  def metrics
    text = Abaca::Metrics::Text.new
    workers = Struct.new(:live) { def clustered? = true }.new([])
    Abaca::Metrics::Processes.new(workers, master: Process.pid).write(text, nil)
    Abaca::Metrics::Machine.new.write(text, nil)
    text.to_s.lines.grep_v(/\A#/)
  end
end
