# frozen_string_literal: true

require "test_helper"
require "abaca/cli"

# `abaca --check-config`: values, and where they come from.
class ConfigReportTest < Minitest::Test
  # Runs the command in a folder with this configuration file.
  # @return [Array(Integer, Hash{String => String}, String)] status; lines by setting; errors
  def check(text, *words, variables: {})
    before = variables.to_h { |name, _| [name, ENV.fetch(name, nil)] }
    before["RACK_ENV"] = ENV.fetch("RACK_ENV", nil)
    ENV.update(variables)
    out = StringIO.new
    err = StringIO.new
    status = Dir.mktmpdir do |folder|
      file = File.join(folder, "puma.rb")
      File.write(file, text)
      Abaca::CLI.run(["--check-config", "-C", file, *words], out:, err:).tap do
        [out, err].each { |io| io.string = io.string.gsub("#{folder}/", "") }
      end
    end
    [status, out.string.lines.to_h { |line| line.chomp.split(/ +/, 2) }, err.string]
  ensure
    ENV.update(before)
  end

  def row(line) = line.squeeze(" ")

  def test_where_each_value_comes_from
    status, lines, err = check(<<~RUBY, "-t", "2:3", variables: { "WEB_CONCURRENCY" => "3", "MAX_THREADS" => "9" })
      port 3000
      bind "unix:///tmp/a.sock"
      environment "production"
      silence_fork_callback_warning
      before_fork { }
      before_fork { }
      stream_bodies "/a"
      routes { thread "/b" }
      app { |env| env }
    RUBY
    expected = {
      "binds" => "tcp://0.0.0.0:3000, unix:///tmp/a.sock puma.rb:1, puma.rb:2",
      "environment" => "\"production\" puma.rb:3", "workers" => "3 variable WEB_CONCURRENCY",
      "preload_app" => "true default", "threads" => "2, 3 command line",
      "before_fork" => "a block, a block puma.rb:5, puma.rb:6", "stream_bodies" => "\"/a\" puma.rb:7",
      "routes" => "[:thread, \"/b\"] puma.rb:8", "app" => "a block at puma.rb:9 puma.rb:9", "pidfile" => "- default"
    }
    assert_equal [0, ""], [status, err]
    assert_equal(expected, expected.to_h { |name, _| [name, row(lines[name])] })
    assert_empty Abaca::Config::DEFAULTS.keys - %i[log errors] - lines.keys.map(&:to_sym)
  end

  # Most files of Puma's have it, so a start says nothing of it.
  def test_threads_without_effect
    app = "\napp { |env| env }"
    _, _, err = check("threads 3, 3#{app}")
    assert_equal "abaca: warning: puma.rb:1: `threads' has no effect: requests run on fibers (docs/modes.md)\n", err
    assert_empty check("threads 3, 3\nmode :thread#{app}").last
  end

  def test_tokens_are_masked
    _, lines, = check("activate_control_app \"tcp://127.0.0.1:9293\", auth_token: \"hush\", " \
                      "operate_token: \"hush2\", read_token: \"hush3\"")
    %w[auth operate read].each do |name|
      assert_equal "(secret) puma.rb:1", row(lines["control_#{name}_token"])
    end
    refute_includes lines.values.join, "hush"
    _, lines, = check("restart_command \"bin/start --control-token hush -w 2\"")
    assert_equal "\"bin/start --control-token *** -w 2\" puma.rb:1", row(lines["restart_command"])
  end

  def test_warnings_and_mistakes
    status, lines, err = check("io_selector_backend :epoll\nplugin :mine\nmine_size 3\napp { |env| env }\n")
    assert_equal 0, status
    assert_equal "\"mine\" puma.rb:2", row(lines["plugins"])
    assert_equal ["abaca: warning: puma.rb:1: `io_selector_backend' has no effect: the loop is native",
                  "abaca: warning: puma.rb:3: `mine_size' has no effect: plugin mine is not run",
                  "abaca: warning: puma.rb:2: plugin mine is not run: there is no puma/plugin/mine.rb in the bundle; " \
                  "what it does will not happen"],
                 err.lines(chomp: true)
    status, lines, err = check("\nnonsense 1\n")
    assert_equal [1, {}, "abaca: puma.rb:2: unknown setting `nonsense'\n"], [status, lines, err]
  end

  def test_folders_that_are_not_there
    status, lines, err = check(<<~RUBY, "--state", "/no/such/folder/state", "missing.ru")
      directory "/no/such/folder"
      pidfile "tmp/pid"
      bind "unix:///no/such/folder/socket"
      activate_control_app "unix:///no/such/folder/control"
      stdout_redirect "log/out", "log/err"
    RUBY
    reason = "No such file or directory"
    assert_equal 1, status
    assert_equal "\"tmp/pid\" puma.rb:2", row(lines["pidfile"])
    assert_equal ["abaca: puma.rb:1: directory: cannot change to /no/such/folder: #{reason}",
                  "abaca: puma.rb:5: stdout_redirect: cannot write log/out: #{reason}",
                  "abaca: no rackup file missing.ru in /no/such/folder",
                  "abaca: puma.rb:2: pidfile: cannot write tmp/pid: #{reason}",
                  "abaca: state_path: cannot write /no/such/folder/state: #{reason}",
                  "abaca: puma.rb:3: bind: cannot listen on unix:///no/such/folder/socket: #{reason}",
                  "abaca: puma.rb:4: control_url: cannot listen on unix:///no/such/folder/control: #{reason}"],
                 err.lines(chomp: true)
  end

  # It does not keep the others from being found.
  def test_output_in_a_folder_that_is_not_there
    status, lines, err = check("stdout_redirect nil, \"/no/such/folder/err\", true\npidfile \"/no/such/folder/pid\"\n" \
                               "app { |env| env }")
    assert_equal 1, status
    assert_match(/err.*puma.rb:1\z/, lines["redirect"])
    assert_equal ["abaca: puma.rb:1: stdout_redirect: cannot write /no/such/folder/err: No such file or directory",
                  "abaca: puma.rb:2: pidfile: cannot write /no/such/folder/pid: No such file or directory"],
                 err.lines(chomp: true)
  end

  # The check runs beside a server that has these files, and changes none of them.
  def test_files_that_are_there
    Dir.mktmpdir do |folder|
      names = %w[pid state out].to_h { |name| [name, File.join(folder, name)] }
      names.each_value { |path| File.write(path, "kept") }
      UNIXServer.open(File.join(folder, "socket")) do
        status, _, err = check(<<~RUBY)
          directory #{folder.inspect}
          pidfile "pid"
          state_path "state"
          stdout_redirect "out", "new"
          bind "unix://#{folder}/socket"
          activate_control_app
          app { |env| env }
        RUBY
        assert_equal [0, ""], [status, err]
      end
      assert_equal ["kept"], names.values.map { |path| File.read(path) }.uniq
      assert_equal %w[out pid socket state], Dir.children(folder).sort
    end
  end

  def test_files_that_cannot_be
    Dir.mktmpdir do |folder|
      File.write(File.join(folder, "file"), "")
      status, _, err = check(<<~RUBY)
        directory #{folder.inspect}
        pidfile "."
        bind "unix://#{folder}/file"
        stdout_redirect "file/log"
        app { |env| env }
      RUBY
      assert_equal 1, status
      assert_equal ["abaca: puma.rb:4: stdout_redirect: cannot write file/log: Not a directory",
                    "abaca: puma.rb:2: pidfile: cannot write .: Is a directory",
                    "abaca: puma.rb:3: bind: cannot listen on unix://#{folder}/file: Address already in use"],
                   err.lines(chomp: true)
    end
  end

  # Where there is no app, the configuration may be right.
  def test_no_rackup_file
    status, _, err = check("directory \"/\"")
    assert_equal [0, "abaca: warning: no rackup file config.ru in /\n"], [status, err]
  end

  # A stop that was asked for before ends the server as soon as it serves.
  def log_of(**settings)
    out = StringIO.new
    config = Abaca::Config.new({ binds: [Abaca::Config::Bind.tcp("127.0.0.1", 0)], **settings })
    launcher = Abaca::Launcher.new(config, app: ->(_env) {}, out:, err: out)
    launcher.stop
    launcher.run
    out.string
  end

  def test_the_log_begins_with_it_if_wanted
    assert_match(/^max_queue +7 +default$/, log_of(log_config: true, max_queue: 7))
    refute_match(/^max_queue/, log_of(max_queue: 7))
  end

  def test_switches_of_the_environment
    variables = Abaca::Config::Loader::SWITCHES
    _, lines, = check("", variables: variables.values.to_h { |name| [name, "0"] })
    variables.each { |name, variable| assert_equal "true variable #{variable}", row(lines[name.to_s]) }
    refute(Abaca::Config::Loader.new({}, files: [], env: { "PUMA_DEBUG" => "" }).load[:debug])
  end
end
