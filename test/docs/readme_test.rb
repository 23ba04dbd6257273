# frozen_string_literal: true

require "test_helper"
require "json"
require_relative "../../bench/support/statistics"

# The figures of README.md against the results in bench/results that they quote.
class ReadmeTest < Minitest::Test
  ROOT = File.expand_path("../..", __dir__)
  PAGE = File.read(File.join(ROOT, "README.md"))
  LOADS = %w[ka64 close64 pipe16 body16k].freeze
  TLS_LOADS = %w[tls64 h2_10 h2_10_256k ecdsa].freeze

  # The newest run that compares servers, not two checkouts, and that the block takes.
  def result(name, &takes)
    runs = Dir[File.join(ROOT, "bench/results/*-#{name}.json")].sort.map { |path| JSON.parse(File.read(path)) }
    runs.reject { |run| run.key?("against") }.select(&takes || :itself).last
  end

  # name => server, of the newest run that has this load.
  def servers(load)
    run = result("servers") { |one| one.fetch("servers").any? { |server| server["loads"]&.key?(load) } }
    run.fetch("servers").to_h { |server| [server["name"], server] }
  end

  # The cells of the table that has this row, of each row the name first.
  def table(row)
    found = PAGE.scan(/(?:^\|.*\n)+/).find { |lines| lines.match?(/^\| #{row}/) }
    found.lines.drop(2).map { |line| line.delete("*").split("|").drop(1).map(&:strip) }
  end

  def key(name) = name[/\w+/].downcase

  # Of Abaca to another, by the rounds.
  def ratio(servers, load, other)
    own, others = [servers.fetch("abaca"), servers.fetch(other)].map do |server|
      server.fetch("loads").fetch(load).fetch("rounds").map { |round| round.fetch("cpu") }
    end
    Bench::Statistics.median(own.zip(others).map { |pair| pair.first.fdiv(pair.last) })
  end

  # A figure with as many decimals as the page gives it.
  def shown(value, text) = format("%.#{text[/\.(\d+)/, 1].to_s.size}f", value)

  # Those that have a figure at this load.
  def measured(servers, load)
    servers.select { |_, server| server.dig("loads", load, "cpu_us_median") }.keys.sort
  end

  def test_the_table_of_servers
    servers = servers("ka64")
    rows = table("limit ")
    assert_equal measured(servers, "ka64"), rows.map { |name, *| key(name) }.sort
    rows.each do |name, *cells|
      server = servers.fetch(key(name))
      LOADS.select { |load| measured(servers, load).any? }.zip(cells) do |load, cell|
        next if cell == "–"

        figures = server.fetch("loads").fetch(load)
        assert_equal shown(figures.fetch("cpu_us_median"), cell[/[\d.]+/]), cell[/[\d.]+/], "#{name}, #{load}"
        ratio = cell[/\(([\d.]+) x\)/, 1] or next
        assert_equal shown(ratio(servers, load, "limit"), ratio), ratio, "#{name}, #{load}"
      end
    end
  end

  def test_the_table_of_tls
    servers = servers("tls64")
    rows = table("h2o ")
    assert_equal measured(servers, "tls64"), rows.map { |name, *| key(name) }.sort
    rows.each do |name, *cells|
      TLS_LOADS.select { |load| measured(servers, load).any? }.zip(cells) do |load, cell|
        next if cell == "–"

        median = servers.fetch(key(name)).fetch("loads").fetch(load).fetch("cpu_us_median")
        assert_equal shown(median, cell[/[\d.]+/]), cell[/[\d.]+/], name
        ratio = cell[/\(([\d.]+) x\)/, 1] or next
        assert_equal shown(ratio(servers, load, "nginx"), ratio), ratio, name
      end
    end
  end

  # Fewer or shorter ones may be looked at, and not quoted.
  def test_the_tables_are_of_five_rounds_of_two_seconds
    %w[ka64 tls64].each do |load|
      run = result("servers") { |one| one.fetch("servers").any? { |server| server["loads"]&.key?(load) } }
      assert_operator run.fetch("rounds"), :>=, 5, load
      assert_operator run.fetch("seconds"), :>=, 2, load
      refute run["quick"] || run.fetch("machine").fetch("uncommitted_changes"), load
    end
  end

  def test_what_a_handshake_takes
    loads = servers("ecdsa").fetch("abaca").fetch("loads").transform_values { |one| one.fetch("cpu_us_median") }
    told = File.read(File.join(ROOT, "docs/tls.md"))[/as much processor time as (\d+) small requests over TLS/, 1]
    assert_equal loads.fetch("ecdsa").fdiv(loads.fetch("tls64")).round.to_s, told
  end

  def test_idle_connections_with_tls
    rows = result("idle") { |run| run.fetch("rows").any? { |row| row["row"] == "tls" } }.fetch("rows")
    bytes = rows.to_h { |row| [row["row"], row.fetch("turns").transform_values { |turns| turns.first.fetch("bytes") }] }
    figures = PAGE[/^An idle TLS connection takes .+$/].scan(/[\d.]*\d(?= KB|\))/)
    expected = %w[tls h2].flat_map { |row| bytes.fetch(row).values_at("abaca", "nginx") }
    assert_equal expected.map { |one| format("%.1f", one / 1000.0) }, figures
    ["docs/tls.md", "docs/http2.md"].each do |page|
      text = File.read(File.join(ROOT, page))
      figures = text.scan(/idle (?:TLS )?connection.*? takes about (\d+) KB(?:, and (\d+) with HTTP)?/).flatten.compact
      refute_empty figures, page
      figures.each { |one| assert_includes expected.values_at(0, 2).map { |size| (size / 1000.0).round.to_s }, one }
    end
  end

  def test_the_versions_of_servers
    servers("ka64").each_value do |server|
      version = PAGE[/^\| #{server["name"]} (\d[\d.]*)/, 1] or next
      assert_operator server.fetch("version").delete_prefix("v"), :start_with?, version
    end
  end

  def test_streams_and_slow_readers
    turns = result("streaming").fetch("turns")
    sentence = PAGE[/^A body of a megabyte.+?cost \d+ KB each/m]
    turns.each do |name, rounds|
      rate = Bench::Statistics.median(rounds.map { |round| round.fetch("rate") })
      assert_equal rate.round, sentence[/#{name} ([\d,]+)/i, 1].delete(",").to_i, name
    end
    bytes = result("slow_readers").dig("bytes_per_client", "abaca", "shared")
    assert_equal "#{(bytes / 1000.0).round} KB", sentence[/\d+ KB/]
  end
end
