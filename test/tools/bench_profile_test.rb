# frozen_string_literal: true

require "test_helper"
require "open3"
require "rbconfig"
require_relative "../../bench/support/bench"
require_relative "../../bench/profile/rows"

# `bin/bench profile`: how it reads what perf and strace say, what it records of a script, what it says without perf.
class BenchProfileTest < Minitest::Test
  REPORT = <<~TEXT

    # A comment
     300        |libruby-3.1.so.3.1.2|[.] rb_vm_exec
     5          |libruby-3.1.so.3.1.2|[.] 0x00000000000cf840
     45         |libruby-3.1.so.3.1.2|[.] 0x00000000001e18b4
     200        |[kernel.kallsyms]   |[k] tcp_sendmsg_locked
     50         |[nf_tables]         |[k] nft_do_chain
     90         |libc.so.6           |[.] _int_malloc
     10         |ld-linux-x86-64.so.2|[.] _dl_relocate_object
     120        |abaca.so            |[.] ab_http1_parse
     80         |libcrypto.so.3      |[.] aesni_gcm_encrypt
     20         |libssl.so.3         |[.] tls1_enc
     40         |libnghttp2.so.14.24.|[.] nghttp2_hd_inflate_hd_nv
     36         |socket.so           |[.] 0x0000000000004a10
     4          |[unknown]           |[.] 0x00007ffd0badcafe
  TEXT

  CALLS = <<~TEXT
    % time     seconds  usecs/call     calls    errors syscall
    ------ ----------- ----------- --------- --------- ----------------
     61.54    0.010000           4      2000      1000 recvfrom
     38.46    0.006250           6      1000           sendto
      0.00    0.000000           0         3           futex
    ------ ----------- ----------- --------- --------- ----------------
    100.00    0.016250           5      3003      1000 total
  TEXT

  def samples(*own) = Bench::Samples.new(own: own).tap { |samples| samples.add(REPORT) }

  def test_samples_are_folded_into_parts
    found = samples("abaca")
    assert_equal 1000, found.total
    assert_equal({ "Ruby" => 35.0, "kernel" => 25.0, "libc" => 10.0, "own code" => 12.0, "OpenSSL" => 10.0,
                   "nghttp2" => 4.0, "others" => 4.0 }, found.shares)
    assert_equal 16.0, samples("nginx").shares["others"]
  end

  def test_functions_of_a_part
    functions = samples("abaca").functions
    assert_equal({ "rb_vm_exec" => 30.0, "(no name)" => 5.0 }, functions["Ruby"])
    assert_equal({ "tcp_sendmsg_locked" => 20.0, "nft_do_chain" => 5.0 }, functions["kernel"])
    refute_includes samples("nginx").functions, "own code"
  end

  def test_no_more_functions_than_a_reader_takes
    many = Bench::Samples.new(own: ["x"])
    100.times { |nth| many.add("#{nth + 1} |x |[.] f#{nth}\n") }
    assert_equal 100.times.map { |nth| "f#{nth}" }.last(15).reverse, many.functions["own code"].keys
    many.add("1000000 |x |[.] most\n")
    assert_equal({ "most" => 99.5 }, many.functions["own code"])
  end

  def test_nothing_was_found
    assert_equal [0.0], Bench::Samples.new(own: ["x"]).shares.values.uniq
  end

  def test_calls_of_an_operation
    calls = Bench::SystemCalls.new(CALLS, 1000)
    assert_equal({ "recvfrom" => 2.0, "sendto" => 1.0 }, calls.all)
    assert_equal({ "recvfrom" => 1.0 }, calls.failed)
    assert_equal "recvfrom 2.0 (1.0 failed), sendto 1.0", calls.to_s
  end

  # What the command says when these are the only programs.
  def profile(programs)
    Dir.mktmpdir do |folder|
      programs.each { |name, text| File.write(File.join(folder, name), text, perm: 0o755) }
      Open3.capture2e({ "PATH" => folder }, RbConfig.ruby, File.join(Bench::DIR, "profile.rb"))
    end
  end

  def test_without_perf
    skip "perf is in /usr/sbin" if %w[/usr/sbin /sbin].any? { |folder| File.exist?(File.join(folder, "perf")) }
    output, status = profile("strace" => "")
    assert_equal "bench: perf is not installed (apt-get install linux-perf)\n", output
    refute_predicate status, :success?
  end

  def test_perf_that_may_not_record
    denied = "#!/bin/sh\necho 'Error:'\necho 'Access to performance monitoring is limited.'\necho More.\nexit 255\n"
    output, status = profile("strace" => "", "perf" => denied)
    said = /\Abench: perf may not record here \(kernel\.perf_event_paranoid is -?\d\): Access to .* limited\.\n\z/
    assert_match said, output
    refute_predicate status, :success?
  end

  # A script's process stands still at both ends of what is recorded.
  def test_the_window_of_a_script
    script = "require #{File.join(Bench::DIR, "support/window").dump}; puts 'early'; $stdout.flush\n" \
             "Bench::Window.open { puts 'work' }; puts 'late', '{\"operations\": 7}'"
    command = ->(_) { [RbConfig.ruby, "-e", script] }
    subject = Bench::Scripted.new(name: "x", ruby: Bench::Ruby.here, seconds: 1, pinned: false)
    seen = []
    found = subject.send(:turn, Bench::Scripted::Script.new(own: [], env: {}, command: command)) do |pid, work|
      log = -> { File.read("/proc/#{pid}/fd/1").lines(chomp: true) & %w[early work late] }
      seen << log.call
      work.call
      seen << log.call
    end
    assert_equal [%w[early], %w[early work]], seen
    assert_equal [7, 0], found.values_at(:operations, :collections)
    assert_operator found.fetch(:objects), :>, 0
    assert_equal "early\nwork\nlate\n{\"operations\": 7}\n", Open3.capture2(*command.call(1)).first
  end

  # A subject in which this was found.
  Known = Class.new(Bench::Subject) do
    attr_accessor :found

    def absent = { "peer" => "does not start" }
  end

  def test_what_is_shown_and_kept
    turns = [{ operations: 10, cpu: 2.0, gc: 1.0, collections: 3, objects: 70, page_faults: 1 },
             { operations: 10, cpu: 2.0, gc: 0.0, collections: 1, objects: 50, page_faults: 0 }]
    known = Known.new(name: "fibers/x", ruby: Bench::Ruby.here, seconds: 1, pinned: false)
    calls = Bench::SystemCalls.new(CALLS, 1000)
    known.found = { "abaca" => Bench::Subject::Found.new(samples: samples("abaca"), calls: calls,
                                                         counts: Bench::Scripted::Counts.of(turns)),
                    "nginx" => Bench::Subject::Found.new(samples: samples("nginx"), calls: calls) }
    shown = known.render
    assert_match(/^own code +12\.0 +0\.0$/, shown)
    assert_match(/^peer +does not start$/, shown)
    assert_includes shown, "\n  Ruby: rb_vm_exec 30.0, (no name) 5.0\n"
    counted = "6.0 objects, 0.05 page faults, 0.2 collections, which take 25.0 % of the processor time"
    called = "recvfrom 2.0 (1.0 failed), sendto 1.0"
    assert_equal ["#{counted}; #{called}", called], shown.scan(/^  an operation: (.+)$/).flatten
    kept = known.to_h[:turns]
    assert_equal [12.0, 25.0], [kept["abaca"][:shares]["own code"], kept["abaca"][:counts][:collector]]
    refute_includes kept["nginx"], :counts
  end

  def test_a_script_that_dies
    subject = Bench::Scripted.new(name: "x", ruby: Bench::Ruby.here, seconds: 1, pinned: false)
    script = Bench::Scripted::Script.new(own: [], env: {}, command: ->(_) { [RbConfig.ruby, "-e", "abort 'an error'"] })
    error = assert_raises(Bench::Failed) { subject.send(:turn, script) { flunk "nothing to record" } }
    assert_match(/an error/, error.message)
  end

  # A row that is explained by its profile can be recorded, unless it is none of time.
  def test_the_rows
    assert_includes Bench::Profile.explained, "servers/ka64"
    error = assert_raises(ArgumentError) { Bench::Profile.pick(["servers/none"]) }
    assert_match(%r{no such row: servers/none; there are .*fibers/reuse}, error.message)
  end
end
