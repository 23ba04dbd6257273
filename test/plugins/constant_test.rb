# frozen_string_literal: true

require "test_helper"
require "json"
require "open3"
require "support/cluster_case"

# The constant Puma: gems look for it to find their server. It is there in each process that serves, and in no other.
class PumaConstantTest < Minitest::Test
  include ClusterCase

  LIB = File.expand_path("../../lib", __dir__)

  # Fails at its first line without the constant.
  CONFIG = <<~'RUBY'
    raise "no Puma" unless defined?(::Puma)

    module Ours
      def self.version = Puma::Const::VERSION
    end

    def windows = ::Puma.windows?
    tag "#{Ours.version} #{::Puma.jruby?} #{windows} #{Puma.cli_config.options.fetch(:max_threads, 5)}"
    threads 2, 7
  RUBY

  # What gems ask while the app loads, as a file, and again in each request.
  RACKUP = <<~RUBY
    require "json"
    facts = lambda do
      options = ::Puma.cli_config.options
      { "name" => $0, "started_at" => JSON.parse(Puma.stats)["started_at"],
        "hash" => Puma.stats_hash.slice(:started_at, :versions).size,
        "workers" => Puma.stats_hash[:worker_status].to_a.map { |worker| worker.dig(:abaca, :state).to_s }.uniq,
        "runner" => Puma.instance_variable_get(:@get_stats).then { |one| [one.class.name, one.stats.key?(:started_at)] },
        "threads" => options.fetch(:max_threads, 5), "user" => options.user_options.class.name,
        "named" => %i[CLI Cluster Configuration ConnectionError Const DSL Events HttpParserError Launcher LogWriter
                      MiniSSL Plugin Server Single ThreadPool UnknownPlugin UnsupportedOption]
                     .reject { |name| ::Puma.const_defined?(name) } }
    end
    loaded = facts.call
    run ->(_) { [200, {}, [JSON.generate([loaded, facts.call])]] }
  RUBY

  def title(pid) = File.read("/proc/#{pid}/cmdline").delete("\0")

  # Runs Ruby on some text with Abaca's folder and no bundle, with all its warnings; returns its output.
  def ruby(text, env = {})
    env = { "RUBYOPT" => nil, "RUBYLIB" => nil, "BUNDLE_GEMFILE" => nil, **env }
    output, status = Open3.capture2e(env, RbConfig.ruby, "-w", "-I#{LIB}", "-e", text, chdir: @directory)
    assert status.success?, output
    output
  end

  def test_a_single_process
    command = run_abaca(RACKUP, config: "#{CONFIG}workers 0")
    loaded, serving = JSON.parse(ask(command))
    expected = { "name" => "puma", "hash" => 2, "workers" => [], "threads" => 7, "user" => "Hash", "named" => [],
                 "runner" => ["Puma::Single", true] }
    assert_equal expected, loaded.except("started_at")
    assert_equal expected, serving.except("started_at")
    [loaded, serving].each { |facts| assert_match(/\A\d{4}-\d\d-\d\dT/, facts["started_at"]) }
    assert_match(/\Aabaca \S+ \(http.*\) \[8\.0\.2 false false 5\]\z/, title(command.pid))
    assert_equal 0, finish(command)
  end

  # The name is that of the master while the app loads, wherever it does, and that of a worker when it serves.
  def test_workers
    [true, false].each do |preload|
      command = run_cluster(RACKUP, config: "#{CONFIG}workers 1\nsilence_single_worker_warning\ntag 'shop'\n" \
                                            "preload_app! #{preload}", count: 1)
      loaded, serving = JSON.parse(ask(command))
      assert_equal ["puma", 2, preload ? [] : ["booting"]], loaded.values_at("name", "hash", "workers")
      assert_equal ["Puma::Cluster", true], loaded["runner"]
      assert_equal ["puma: cluster worker 0: #{command.pid} [shop]", ["serving"]], serving.values_at("name", "workers")
      assert_equal "abaca: cluster worker 0: #{command.pid} [shop]", title(booted(command).first.pid)
      assert_match(/\Aabaca \S+ \(http.*\) \[shop\]\z/, title(command.pid))
      assert_equal 0, finish(command)
    end
  end

  # As a boot may take long, ps says by then what boots.
  def test_the_title_while_the_app_loads
    File.mkfifo(File.join(@directory, "gate"))
    command = run_abaca("File.read('gate'); run ->(_) { [200, {}, []] }", config: "tag 'shop'")
    assert eventually { title(command.pid) == "abaca #{Abaca::VERSION} (booting) [shop]" }, title(command.pid)
    File.write(File.join(@directory, "gate"), "")
    command.port
    assert_equal 0, finish(command)
  end

  # Gems add hooks to the options, each in its own way: Puma 7's form and blocks. They count beside those of the file.
  def test_hooks_that_gems_add
    app = <<~'RUBY'
      options = ::Puma.cli_config.options
      old = options.user_options[:before_worker_boot] || []
      options[:before_worker_boot] = old + [{ block: ->(index) { warn "scout #{index}" }, id: nil, cluster_only: false }]
      options[:before_worker_boot] ||= []
      options[:before_worker_boot] << ->(index) { warn "orbit #{index}" }
      (options[:before_worker_shutdown] ||= []) << proc { warn "shutdown" }
      %i[after_booted after_stopped out_of_band].each { |name| options[name] << -> { warn name } }
      run ->(_) { [200, {}, []] }
    RUBY
    command = run_cluster(app, config: "workers 2\nbefore_worker_boot { |index| warn 'file ' + index.to_s }")
    ask(command)
    command.wait_for(/^out_of_band$/)
    assert_equal 0, finish(command)
    hooks = command.text.scan(/^(?:file|scout|orbit) \d$/)
    assert_equal ["file 0", "file 1", "orbit 0", "orbit 1", "scout 0", "scout 1"], hooks.sort
    assert_equal %w[file scout orbit], hooks.grep(/0/).map { |line| line[/\w+/] }
    assert_equal 2, command.text.scan(/^shutdown$/).size
    assert_match(/^after_booted\n(?:.*\n)*after_stopped$/, command.text)
  end

  # Consoles, jobs and other programs.
  def test_a_program_that_only_loads_the_gem
    assert_equal "[nil, \"missing\"]\n", ruby(<<~RUBY)
      require "abaca"
      require "abaca/default_handler"
      Abaca::Server.new(->(_) {}).close
      alone = begin
        require "puma/plugin"
      rescue LoadError
        "missing"
      end
      p [defined?(::Puma), alone]
    RUBY
  end

  def configure(text)
    FileUtils.mkdir_p(File.join(@directory, "config"))
    File.write(File.join(@directory, "config/puma.rb"), text)
  end

  # `rackup` and `rails server` load the handler, then perhaps the app, and only then start the server.
  def test_a_handler_of_rack
    configure("threads 3, 9")
    assert_equal "[\"constant\", 9]\n", ruby(<<~RUBY)
      require "abaca/rack_handler"
      p [defined?(::Puma) && "constant", Puma.cli_config.options[:max_threads]]
    RUBY
  end

  # Whoever asks again is not given what was read before the mistake.
  def test_a_handler_of_rack_and_a_file_with_a_mistake
    configure("threads 3, 9\nthreads 9, 3")
    assert_equal "2\n", ruby(<<~RUBY)
      require "abaca/rack_handler"
      failures = Array.new(2) do
        Puma.cli_config
      rescue Abaca::ConfigError => e
        e.message
      end
      p failures.grep(/puma.rb:2: threads/).size
    RUBY
  end

  # --- beside Puma's gem ---

  # The same with a gem of that name, whose objects cannot be taken for ours.
  def ruby_with_gem(files, text)
    make_gem(files)
    ruby(text, "GEM_PATH" => "#{@directory}/gems")
  end

  def make_gem(files)
    files.each do |name, text|
      path = File.join(@directory, "gems/gems/puma-9.9.9/lib", name)
      FileUtils.mkdir_p(File.dirname(path))
      File.write(path, text)
    end
    FileUtils.mkdir_p(File.join(@directory, "gems/specifications"))
    File.write(File.join(@directory, "gems/specifications/puma-9.9.9.gemspec"), <<~RUBY)
      Gem::Specification.new do |spec|
        spec.name, spec.version, spec.summary, spec.authors = "puma", "9.9.9", "theirs", ["them"]
        spec.files = Dir["lib/**/*"]
      end
    RUBY
  end

  GEM = {
    "puma.rb" => <<~RUBY,
      module Puma
        module Const; VERSION = "9.9.9"; end
        class << self
          def stats_object=(object); @get_stats = object; end
          def stats_hash = @get_stats.stats
          def stats = raise("Symbols are not JSON")
        end
      end
    RUBY
    "puma/cli.rb" => <<~RUBY
      require "puma"
      module Puma
        class << self
          attr_accessor :cli_config
        end
        class CLI; end
        class Single; def initialize = raise; def stats = raise; end
        class Cluster < Single; end
      end
    RUBY
  }.freeze

  # If it is in the bundle, the names are its own, from the start. Loading it again changes nothing.
  def test_with_the_gem_in_the_bundle
    File.write(File.join(@directory, "puma.rb"), "tag Puma::Const::VERSION")
    output = ruby_with_gem(GEM, <<~RUBY)
      gem "puma"
      require "abaca"
      config = Abaca::Config::Loader.new({}, files: ["puma.rb"]).load
      before = Puma.cli_config.options
      require "puma"
      require "puma/cli"
      ::Puma.stats_object = Struct.new(:stats).new({ state: :serving })
      p [Puma::Const::VERSION, Puma.cli_config.options.equal?(before), config[:tag], Puma.stats]
    RUBY
    assert_equal "[\"9.9.9\", true, \"9.9.9\", \"{\\\"state\\\":\\\"serving\\\"}\"]\n", output
  end

  # An app may enter its bundle after the names were defined. Ruby's warnings would be in the output.
  def test_a_gem_that_comes_later
    files = GEM.transform_values { |text| "#{text}\nwarn 'theirs'\n" }
    assert_equal "[\"8.0.2\", true, false]\n", ruby_with_gem(files, <<~RUBY)
      require "abaca"
      Abaca::Config::Loader.new({}, files: []).load
      server = Puma::Server
      gem "puma"
      loaded = require("puma")
      require "puma/cli"
      p [Puma::Const::VERSION, Puma::Server.equal?(server), loaded]
    RUBY
  end

  # One that does not load is a mistake of one line.
  def test_a_gem_that_does_not_load
    { "require 'puma/no'" => "cannot load such file -- puma/no", "raise 'Rack 3'" => "Rack 3" }.each do |text, why|
      output = ruby_with_gem({ "puma/cli.rb" => text }, <<~RUBY)
        gem "puma"
        require "abaca/cli"
        Abaca::CLI.run(%w[--no-config --check-config])
      RUBY
      assert_equal "abaca: the gem puma is in the bundle and does not load: #{why}\n", output
    end
  end

  # Of older versions, the events have other names, and one takes streams.
  def test_events_of_an_older_gem
    files = GEM.merge("puma/cli.rb" => GEM["puma/cli.rb"] + <<~RUBY)
      module Puma
        class Events
          def initialize(stdout, stderr) = @hooks = Hash.new { |hooks, name| hooks[name] = [] }
          def register(name, object = nil, &block) = @hooks[name] << (object || block)
          def fire(name, *given) = @hooks[name].each { |hook| hook.call(*given) }
          def on_booted(&block) = register(:on_booted, &block)
        end
      end
    RUBY
    assert_equal "[\"old\", \"new\"]\n", ruby_with_gem(files, <<~RUBY)
      gem "puma"
      require "abaca"
      Abaca::PumaNames.define
      events = Abaca::Launcher::Plugins::Events.make(Abaca::Log.new)
      told = []
      events.on_booted { told << "old" }
      events.after_booted { told << "new" }
      events.fire(:after_booted)
      p told
    RUBY
  end

  # --- the names ---

  # Gems change Puma's classes, look for their objects, and load single files.
  def test_what_gems_do_with_the_names
    assert_equal "[true, 2, 15]\n", ruby(<<~RUBY)
      require "abaca"
      Abaca::PumaNames.define
      Puma::Server.class_eval { alias_method :orig_stop, :stop }
      Puma::Server.prepend(Module.new { def lowlevel_error(error, env, status = 500) = super })
      Puma::Cluster.class_eval { alias_method :orig_stop_workers, :stop_workers }
      launcher = Struct.new(:options).new({ workers: 2, preload_app: true })
      Abaca::PumaNames::Runner.of(launcher, clustered: true)
      found = ObjectSpace.each_object(Puma::Cluster).first
      files = %w[puma puma/cli puma/cluster puma/configuration puma/const puma/detect puma/dsl puma/events puma/launcher
                 puma/log_writer puma/minissl puma/plugin puma/server puma/single puma/thread_pool]
      p [found.preload?, found.instance_variable_get(:@options)[:workers], files.each { |file| require file }.size]
    RUBY
  end

  # A plugin that serves its figures makes a server of its own.
  def test_a_server_by_pumas_name
    assert_equal "[false, 1, \"200 figures\", true, 0]\n", ruby(<<~'RUBY')
      require "abaca"
      require "net/http"
      Abaca::PumaNames.define
      server = Puma::Server.new(->(_) { [200, {}, ["figures"]] }, Puma::Events.new, min_threads: 0, max_threads: 1,
                                log_writer: Puma::LogWriter.null)
      server.add_tcp_listener("127.0.0.1", 0)
      before = server.shutting_down?
      thread = server.run
      answer = Net::HTTP.get_response("127.0.0.1", "/", server.connected_ports.first)
      running = server.running
      server.stop(true)
      thread.join
      p [before, running, "#{answer.code} #{answer.body}", server.shutting_down?, server.running]
    RUBY
  end
end
