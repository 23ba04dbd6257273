# frozen_string_literal: true

require "test_helper"
require "abaca"
require "socket"
require_relative "command"

# What the command says and answers before it serves: every mistake is one line and status 1.
class CommandBootTest < Minitest::Test
  include Command

  APP = "run ->(_env) { [200, { \"content-type\" => \"text/plain\" }, [\"hello\\n\"]] }\n"

  def test_version
    ended = run_command("-V")

    assert_equal 0, ended.status
    assert_match(/\Aabaca version \d+\.\d+\.\d+\n\z/, ended.out)
    assert_empty ended.err
  end

  def test_help_names_every_flag_of_the_contract
    ended = run_command("-h")

    assert_equal 0, ended.status
    %w[--bind --port --environment --config --quiet --log-requests --version --help --max-fibers].each do |flag|
      assert_includes ended.out, flag
    end
  end

  def test_unknown_flag
    assert_equal "abaca: invalid option: --nonsense", assert_fails("--nonsense")
  end

  def test_flag_without_its_value
    assert_equal "abaca: missing argument: -b", assert_fails("-b")
  end

  def test_invalid_uri
    assert_match(%r{invalid URI: http://127.0.0.1:1 }, assert_fails("-b", "http://127.0.0.1:1"))
    assert_match(/invalid URI: nonsense/, assert_fails("-b", "nonsense"))
  end

  def test_tls_without_a_certificate
    skip "this build has no TLS" unless Abaca::TLS_LIBRARY
    assert_match(%r{ssl://0:1: a certificate is needed: cert= and key=},
                 assert_fails("-e", "production", "-b", "ssl://0:1"))
  end

  def test_port_out_of_range
    assert_match(/a port is a number from 0 to 65535, not "65536"/, assert_fails("-p", "65536"))
    assert_match(/a port is a number from 0 to 65535, not "-1"/, assert_fails("-p", "-1"))
  end

  def test_no_rackup_file
    assert_equal "abaca: no rackup file config.ru in #{@dir}", assert_fails
    assert_equal "abaca: no rackup file other.ru in #{@dir}", assert_fails("other.ru")
  end

  def test_two_rackup_files
    assert_match(/one rackup file only/, assert_fails("one.ru", "two.ru"))
  end

  def test_rackup_file_with_a_syntax_error
    file("config.ru", "run(\n")

    assert_match(/cannot load config.ru: .*config.ru:\d+: syntax error/, assert_fails)
  end

  def test_rackup_file_that_raises
    file("config.ru", "\nraise ArgumentError, \"first\\nsecond\"\n")

    assert_equal "abaca: cannot load config.ru: first (ArgumentError) at #{@dir}/config.ru:2", assert_fails
  end

  # Not every exception is a StandardError.
  def test_rackup_file_that_raises_an_exception_of_its_own
    file("config.ru", "Stop = Class.new(Exception)\nraise Stop, \"reason\"\n")

    assert_equal "abaca: cannot load config.ru: reason (Stop) at #{@dir}/config.ru:2", assert_fails
  end

  def test_rackup_file_that_requires_what_is_not_there
    file("config.ru", "require \"no/such/library\"\n")

    assert_equal "abaca: cannot load config.ru: cannot load such file -- no/such/library (LoadError) " \
                 "at #{@dir}/config.ru:1", assert_fails
  end

  def test_debug_adds_the_backtrace
    file("config.ru", "def broken = raise(\"reason\")\nbroken\n")
    ended = run_command("--debug")

    assert_equal 1, ended.status
    assert_match(/\Aabaca: cannot load config.ru: reason/, ended.err)
    assert_match(/config.ru:1:in [`'].*broken'/, ended.err)
  end

  def test_broken_app_never_holds_the_port
    file("config.ru",
         "begin; TCPSocket.new(\"127.0.0.1\", 29_292); rescue SystemCallError => e; raise e.class.name; end")

    assert_match(/Errno::ECONNREFUSED/, assert_fails("-p", "29292", "-I", @dir))
  end

  def test_port_that_is_taken
    file("config.ru", APP)
    taken = TCPServer.new("127.0.0.1", 0)
    port = taken.addr[1]

    assert_equal "abaca: cannot listen on tcp://127.0.0.1:#{port}: the address is in use by another process",
                 assert_fails("-b", "tcp://127.0.0.1:#{port}")
  ensure
    taken&.close
  end

  def test_address_that_is_not_here
    file("config.ru", APP)

    assert_match(%r{cannot listen on tcp://192.0.2.1:0: }, assert_fails("-b", "tcp://192.0.2.1:0"))
  end

  def test_host_without_an_address
    file("config.ru", APP)

    assert_match(/no address for host "no.such.host.invalid"/, assert_fails("-b", "tcp://no.such.host.invalid:0"))
  end

  def test_unix_socket_in_a_folder_that_is_not_there
    file("config.ru", APP)

    assert_match(%r{cannot listen on unix:///no/such/folder/s: }, assert_fails("-b", "unix:///no/such/folder/s"))
  end

  def test_pidfile_in_a_folder_that_is_not_there
    file("config.ru", APP)

    assert_equal "abaca: pidfile: cannot write /no/such/folder/pid: No such file or directory",
                 assert_fails("-p", "0", "--pidfile", "/no/such/folder/pid")
  end

  # Before the app is loaded, which may take long; but the app may make a folder.
  def test_state_file_in_place_of_a_folder
    file("config.ru", "abort 'the app is loaded'")

    assert_equal "abaca: state_path: cannot write #{@dir}: Is a directory", assert_fails("-p", "0", "--state", @dir)
  end

  def test_directory_that_is_not_there
    reason = "directory: cannot change to /no/such/folder: No such file or directory"

    assert_equal "abaca: #{reason}", assert_fails("--dir", "/no/such/folder")
    file("config/puma.rb", "\ndirectory \"/no/such/folder\"\n")
    assert_equal "abaca: config/puma.rb:2: #{reason}", assert_fails
    assert_equal "abaca: directory: cannot change to #{@dir}/config/puma.rb: Not a directory",
                 assert_fails("--dir", "config/puma.rb")
  end

  def test_output_in_a_folder_that_is_not_there
    file("config.ru", APP)
    kept = file("kept", "text")
    words = ["-p", "0", "--redirect-stdout", kept, "--redirect-stderr", "/no/such/folder/log"]

    assert_equal "abaca: stdout_redirect: cannot write /no/such/folder/log: No such file or directory",
                 assert_fails(*words)
    assert_equal "text", File.read(kept)
    file("config/puma.rb", "stdout_redirect \"log/out\"\n")
    assert_equal "abaca: config/puma.rb:1: stdout_redirect: cannot write log/out: No such file or directory",
                 assert_fails("-p", "0")
  end

  def test_script_name_that_is_none
    file("config.ru", APP)

    assert_equal "abaca: variable SCRIPT_NAME: script_name: \"\" or a path such as \"/shop\" is needed, not \"x\"",
                 assert_fails("-p", "0", env: { "SCRIPT_NAME" => "x" })
  end

  def test_hook_without_which_the_server_does_not_serve
    file("config.ru", APP)
    file("config/puma.rb", "after_booted { raise \"broken\" }\n")

    assert_equal "abaca: hook after_booted at config/puma.rb:1 failed: broken (RuntimeError)", assert_fails("-p", "0")
    file("config/puma.rb",
         "after_booted { Process.kill(:TERM, Process.pid) }\nafter_stopped { raise NotImplementedError }")
    assert_equal "abaca: hook after_stopped at config/puma.rb:2 failed: NotImplementedError (NotImplementedError)",
                 assert_fails("-p", "0")
  end

  def test_configuration_file_that_is_not_there
    assert_match(/cannot read the configuration file: .*nothing.rb/, assert_fails("-C", "nothing.rb"))
  end

  def test_unknown_setting_names_its_line
    file("config/puma.rb", "port 0\n\nprot 1\n")

    assert_equal "abaca: config/puma.rb:3: unknown setting `prot' (did you mean `port'?)", assert_fails
  end

  def test_app_that_is_none
    file("config.ru", "run Object.new\n")

    assert_match(/Object is no Rack app: it has no call/, assert_fails("-p", "0"))
  end
end
