# frozen_string_literal: true

require "test_helper"
require "abaca/cli"
require_relative "../../rakelib/settings_page"

# docs/configuration.md against the code: no setting, flag or option is left out or made up, defaults are the
# code's, and what is said to be refused is, in these words.
class ConfigurationPageTest < Minitest::Test
  PAGE = File.read(File.expand_path("../../docs/configuration.md", __dir__))
  Config = Abaca::Config
  WITHOUT_EFFECT = Config::DSL::PumaSettings::WITHOUT_EFFECT

  # Methods of the DSL that stand for a setting of another name.
  KEYS = { log_formatter: :formatter, custom_logger: :logger, stdout_redirect: :redirect, bind: :binds,
           certificate: :certificates, service: :services,
           set_default_host: :default_host, set_remote_address: :remote_address,
           preload_app!: :preload_app, plugin: :plugins }.freeze
  # Those whose default the configuration works out.
  WORKED_OUT = { port: Config.new.binds.first.port, max_fibers: Config::Admission::MAX_FIBERS,
                 set_default_host: "127.0.0.1", rewindable_input: false }.freeze

  # Rows of the tables that have these columns, as Hashes by column.
  def rows(*columns)
    PAGE.scan(/^(\|.+)\n\|[-|]+\n((?:\|.*\n)+)/).flat_map do |head, body|
      names = cells(head)
      (columns - names).empty? ? body.lines.map { |line| names.zip(cells(line)).to_h } : []
    end
  end

  def cells(line) = line.chomp.delete_prefix("|").split("|").map(&:strip)

  # What stands in `code` in a cell.
  def code(text) = text.to_s.scan(/`` ?(.+?) ?``|`([^`]+)`/).map { |pair| pair.compact.first }

  def settings = rows("setting", "default")

  # Long and short flags of the command, as its help has them.
  def flags
    out = StringIO.new
    Abaca::CLI.run(["--help"], out:, err: StringIO.new)
    out.string.lines.grep(/^ +-/).flat_map do |line|
      line[/^ +(?:-\w)?(?:, )?(?:--\S+)?/].scan(/--\[no-\][\w-]+|--?\w[\w-]*/).flat_map do |flag|
        flag.include?("[no-]") ? [flag.sub("[no-]", ""), flag.sub("[no-]", "no-")] : [flag]
      end
    end
  end

  # A default as the page has it: nothing in code for what is none.
  def shown(value)
    return nil if value.nil? || value == []

    value.inspect.delete_suffix(".0").delete_prefix("[").delete_suffix("]")
  end

  # What a file with this text raises.
  def refusal(text)
    Dir.mktmpdir do |folder|
      path = File.join(folder, "puma.rb")
      File.write(path, text)
      rack_env = ENV.fetch("RACK_ENV", nil)
      assert_raises(Abaca::ConfigError, text) { Config::DSL.new.evaluate_file(path) }.message[/puma\.rb:1: (.*)/, 1]
    ensure
      ENV["RACK_ENV"] = rack_env
    end
  end

  def test_its_tables_are_those_of_the_settings
    assert_equal SettingsPage.render(PAGE), PAGE, "run rake settings"
  end

  # A table that is not there is an error, and not one that is left as it is.
  def test_a_page_without_a_table
    page = PAGE.sub("## Requests that compute", "## Stalls")
    assert_match(/Requests that compute/, assert_raises(RuntimeError) { SettingsPage.render(page) }.message)
  end

  def test_what_an_object_makes_no_use_of_is_named
    named = code(PAGE[/has no effect on an object: .*?\n\n/m]).map(&:to_sym)
    of_process = Config::SETTINGS.values.select { |row| row.level == :process }.map(&:name)
    methods = Config::SETTINGS.values_at(:redirect, :logger, :formatter).flat_map(&:file)
    sections = Config::SECTIONS.values_at("Workers", "Restarts and control").flatten.filter_map(&:name)
    hooks = Config::SETTINGS.values.select { |row| row.hook? && row.level == :process }.map(&:name)
    assert_equal of_process.sort, ((named - methods) | sections | hooks).sort
  end

  def test_every_setting_has_one_row
    listed = settings.flat_map { |row| code(row["setting"]) } + rows("why").flat_map { |row| code(row["settings"]) }
    methods = Config::DSL.public_instance_methods(true) - Object.public_instance_methods -
              %i[evaluate_file evaluate_parts places settle to_h]

    assert_equal methods.map(&:to_s).sort, listed.sort
  end

  def test_every_option_of_an_object_is_named
    names = rows("default").flat_map { |row| code(row["setting"] || row["option"]) }
    commands = code(PAGE[/^Places to listen at are added by.*?\n\n/m])

    assert_empty Config::DEFAULTS.keys.map(&:to_s) - names - commands
    assert_empty rows("option", "in a file").flat_map { |row| code(row["option"]) } - Config::DEFAULTS.keys.map(&:to_s)
  end

  def test_defaults
    checked = [*settings, *rows("option", "in a file")].count do |row|
      name = code(row["setting"] || row["option"]).first.to_sym
      key = KEYS.fetch(name, name)
      next if row["default"] == "–" && !Config::DEFAULTS.key?(key)

      value = WORKED_OUT.fetch(name) { Config::DEFAULTS.fetch(key) }
      assert_equal [shown(value)], [code(row["default"]).first], name
      true
    end
    assert_operator checked, :>=, Config::LIMITS.size + 30
    hosts = %w[test production].map { |environment| Config.new({ environment: }).default_host }
    assert_equal %w[127.0.0.1 0.0.0.0], hosts
  end

  def test_what_may_be_zero
    settings.each do |row|
      _default, _unit, text = Config::LIMITS[code(row["setting"]).first.to_sym]
      next unless text

      assert_equal text.include?("0 is ") ? "0" : "1", row["values"][/from (\d)/, 1], row["setting"]
    end
  end

  def test_options_of_a_url
    binds = { "tcp" => Config::Bind.tcp(nil, 1), "unix" => Config::Bind.unix("/a"), "fd" => Config::Bind.fd(3) }
    listed = rows("option", "of").to_h { |row| [code(row["option"]).first, row] }
    binds["ssl"] = Config::Bind.ssl(nil, 1) if Abaca::TLS_LIBRARY
    binds.each do |kind, bind|
      options = kind == "ssl" ? bind.options.except(:tls, :h2c) : bind.options
      options.each do |name, value|
        row = listed.fetch(name.to_s)
        assert_includes [kind, "all"], row["of"].split(", ").find { |one| [kind, "all"].include?(one) }
        assert_equal [shown(value)].compact, code(row["default"]), name
      end
    end
    known = binds.values.flat_map { |bind| bind.options.keys }.map(&:to_s)
    assert_equal %w[cert redirect plain_http low_latency], listed.keys.compact - known
  end

  def test_every_flag_is_named_and_none_made_up
    tables = rows("flag").flat_map { |row| code(row["flag"]) }
    prose = PAGE.lines.grep_v(/^\|/).flat_map { |line| code(line) }.grep(/\A--?\w[\w-]*\z/)
    named = tables.map { |flag| flag[/\A\S+/] } + prose

    assert_empty flags - named
    assert_empty named - flags
  end

  def test_a_setting_has_its_flag
    settings.each do |row|
      flag = "--#{code(row['setting']).first.tr('_', '-')}"
      assert_includes code(row["flag"]), flag if flags.include?(flag)
    end
  end

  def test_variables
    loader = Config::Loader
    names = [*loader::ENVIRONMENT_VARIABLES, *loader::THREAD_VARIABLES.flatten, "SCRIPT_NAME", "WEB_CONCURRENCY",
             "PUMA_PERSISTENT_TIMEOUT", Config::Processors::VARIABLE, *loader::SWITCHES.values]
    assert_equal names.sort, rows("variable").flat_map { |row| code(row["variable"]) }.sort
  end

  def test_refused_settings_of_puma
    table = rows("in the file", "message")
    refute_empty table
    table.each { |row| assert_equal code(row["message"]).first, refusal(code(row["in the file"]).first) }
  end

  def test_settings_without_an_effect_say_why
    listed = rows("why").flat_map { |row| code(row["settings"]).map { |name| [name.to_sym, row["why"]] } }.to_h
    assert_equal WITHOUT_EFFECT, listed
  end
end
