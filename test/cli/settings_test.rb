# frozen_string_literal: true

require "test_helper"
require "abaca/cli"

# Settings that are flags as well.
class CommandSettingsTest < Minitest::Test
  # The settings that these words make, without a configuration file.
  def config(*words) = Abaca::CLI.new(["-C", "-", *words]).config

  def setting(name, *words) = config(*words)[name]

  # Runs the command; returns what it says of a mistake.
  def mistake(*words)
    err = StringIO.new
    assert_equal 1, Abaca::CLI.run(["-C", "-", *words], out: StringIO.new, err: err)
    assert_equal 1, err.string.lines.size, err.string
    err.string.chomp
  end

  def help
    out = StringIO.new
    assert_equal 0, Abaca::CLI.run(["--help"], out: out, err: StringIO.new)
    out.string
  end

  {
    max_fibers: ["7", 7], max_queue: ["0", 0], queue_timeout: ["3", 3], request_timeout: ["20", 20],
    shutdown_timeout: ["2.5", 2.5], shutdown_delay: ["4", 4.0], readiness: ["/readyz", "/readyz"],
    liveness: ["/livez", "/livez"], quantum: ["20", 20.0], spare_loops: ["0", 0], stall_after: ["50", 50.0],
    stall_report: ["0", 0.0], gvl_wait_target: ["2.5", 2.5], hybrid_threshold: ["80", 80.0],
    hybrid_requests: ["40", 40], header_timeout: ["5", 5], body_timeout: ["6", 6],
    write_timeout: ["7", 7], persistent_timeout: ["8", 8], max_body_size: ["1000", 1000]
  }.each do |name, (word, value)|
    flag = "--#{name.to_s.tr('_', '-')}"

    define_method("test_#{name}") do
      refute_equal value, setting(name), "it is the default"
      assert_equal value, setting(name, flag, word)
      assert_equal value, setting(name, "#{flag}=#{word}")
      assert_match(/^ +#{flag} [A-Z]+( |$)/, help)
    end

    define_method("test_#{name}_without_a_value") do
      assert_equal "abaca: missing argument: #{flag}", mistake(flag)
    end
  end

  def test_a_switch
    assert_equal false, setting(:cancel_on_disconnect)
    assert_equal true, setting(:cancel_on_disconnect, "--cancel-on-disconnect")
    assert_equal false, setting(:cancel_on_disconnect, "--cancel-on-disconnect", "--no-cancel-on-disconnect")
  end

  def test_words_for_the_end_of_a_stop
    assert_nil setting(:shutdown_timeout, "--shutdown-timeout", "forever")
    assert_equal 0.0, setting(:shutdown_timeout, "--shutdown-timeout", "immediately")
  end

  def test_workers
    assert_equal [3, true], config("-w", "3").to_h.values_at(:workers, :preload_app)
    assert_equal Abaca::Config::Processors.new.workers, setting(:workers, "--workers", "auto")
    assert_equal [1, true], config("-w", "1", "--preload").to_h.values_at(:workers, :preload_app)
    assert_equal [nil, 1000, 50, 50],
                 [[], ["-f"], ["-f50"], ["--fork-worker=50"]].map { |words| setting(:fork_worker, *words) }
    assert_equal [1000, "own.ru"], config("--fork-worker", "own.ru").to_h.values_at(:fork_worker, :rackup)
    assert_match(/\A`fork_worker' has no effect/, config("-f").warnings.first)
    %w[two -1 1.5].each { |word| assert_match(/\Aabaca: workers: a number of processes/, mistake("-w", word)) }
  end

  def test_restarts_and_control
    settings = config("-S", "state", "--control-url", "tcp://127.0.0.1:9293", "--control-token", "t", "-R", "bin/up",
                      "--plugin", "one", "--plugin", "two").to_h
    assert_equal ["state", "tcp://127.0.0.1:9293", "t", "bin/up", %w[one two]],
                 settings.values_at(:state_path, :control_url, :control_auth_token, :restart_command, :plugins)
    words = [[], ["--bind-to-activated-sockets"], ["--bind-to-activated-sockets", "only"]]
    assert_equal([false, true, :only], words.map { |list| setting(:bind_to_activated_sockets, *list) })
  end

  def test_mode_and_threads
    assert_equal [:thread, [2, 8]], config("--mode", "thread", "-t", "2:8").to_h.values_at(:mode, :threads)
    Abaca::Config::Modes::NAMES.each { |name| assert_equal name, setting(:mode, "--mode", name.to_s) }
    assert_match(/^ +--mode MODE .*: #{Abaca::Config::Modes::NAMES.join(' or ')} /, help)
  end

  def test_every_flag_of_puma_is_known
    flags = %w[
      -b --bind --bind-to-activated-sockets -C --config --no-config --control-url --control-token --debug --dir
      -e --environment -f --fork-worker -I --include --idle-timeout -p --port --pidfile --plugin --preload
      --prune-bundler --extra-runtime-dependencies -q --quiet -v --log-requests -R --restart-cmd -s --silent -S --state
      -t --threads --early-hints -V --version -w --workers --tag --redirect-stdout --redirect-stderr
      --redirect-append --no-redirect-append -h --help
    ]
    assert_empty flags - help.scan(/^ +(-\w)(?:, (--[\w-]+))?|^ +(--[\w-]+)/).flatten
  end

  def test_they_win_over_the_file
    Dir.mktmpdir do |folder|
      file = File.join(folder, "config.rb")
      File.write(file, "max_queue 5\nquantum 30\ncancel_on_disconnect\nshutdown_timeout 3\n")
      words = %w[--max-queue 6 --no-cancel-on-disconnect --shutdown-timeout forever]
      settings = Abaca::CLI.new(["-C", file, *words]).config.to_h
      assert_equal [6, 30.0, false, nil],
                   settings.values_at(:max_queue, :quantum, :cancel_on_disconnect, :shutdown_timeout)
    end
  end

  {
    "max_fibers" => %w[0 -1 many 1.5], "max_queue" => %w[-1 all], "queue_timeout" => %w[-1 soon 0.5],
    "request_timeout" => %w[-1 soon], "shutdown_timeout" => %w[-1 soon], "shutdown_delay" => %w[-1 soon],
    "idle_timeout" => %w[-1 soon],
    "readiness" => %w[readyz], "liveness" => %w[livez], "quantum" => %w[0.1 soon], "spare_loops" => %w[-1 65 all],
    "stall_after" => %w[-1 soon], "stall_report" => %w[never], "gvl_wait_target" => %w[-1],
    "hybrid_threshold" => %w[0 soon], "hybrid_requests" => %w[0 129 few],
    "header_timeout" => %w[0 soon], "max_body_size" => %w[-1 large], "mode" => %w[process], "threads" => %w[5:2 many]
  }.each do |name, words|
    define_method("test_#{name}_refuses_what_makes_no_sense") do
      words.each do |word|
        assert_match(/\Aabaca: #{name}: .*(needed|out of range)/, mistake("--#{name.tr('_', '-')}", word))
      end
    end
  end

  # OptionParser raises at these.
  def test_words_that_are_no_text
    assert_match(%r{\Aabaca: readiness: a path .* not "/\\xFF"\z}, mistake("--readiness", "/\xff"))
    assert_match(/\Aabaca: mode: .* not "\\xFF"\z/, mistake("--mode", "\xff"))
    assert_equal "abaca: invalid option: --\xff".b, mistake("--\xff").b
    assert_equal ["/\xff".b, "/\xff.ru".b], config("--tag", "/\xff", "/\xff.ru").to_h.values_at(:tag, :rackup)
  end

  # It stands on a terminal of 110 columns, and no flag is there twice.
  def test_the_help_is_readable
    assert_operator help.lines.map { |line| line.chomp.size }.max, :<=, 110
    flags = help.scan(/^ +(?:-\w, )?(--[^ ]+)/).flatten
    assert_equal flags.uniq, flags
  end
end
