# frozen_string_literal: true

require "test_helper"
require "abaca"
require "json"
require_relative "metrics_case"
require "support/programs"

# What readers of other people make of /metrics: Python's of both formats, of which that for OpenMetrics is strict.
class MetricsParsersTest < Minitest::Test
  include MetricsCase
  include Programs

  APP = <<~'RUBY'
    run(lambda do |env|
      env["abaca.route"] = "/\"quoted\"\\\n\xff\u00e9\u009b\u202e" if env["PATH_INFO"] == "/odd"
      sleep 0.02 if env["PATH_INFO"] == "/slow"
      raise "no" if env["PATH_INFO"] == "/fail"
      [200, {}, ["thing\n"]]
    end)
  RUBY
  PYTHON = <<~PYTHON
    import json, sys
    from prometheus_client import parser
    from prometheus_client.openmetrics import parser as open_parser
    parse = open_parser if sys.argv[1] == "open" else parser
    families = []
    for family in parse.text_string_to_metric_families(sys.stdin.buffer.read().decode("utf-8")):
      families.append([family.name, family.type, family.documentation,
                       [[s.name, s.labels, s.value, s.exemplar and [s.exemplar.labels, s.exemplar.value, float(s.exemplar.timestamp)]]
                        for s in family.samples]])
    print(json.dumps(families))
  PYTHON
  OPEN = "application/openmetrics-text"
  TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"

  # By family: type, help, samples.
  def parse(format, text)
    need_program("/usr/bin/python3")
    missing("python3-prometheus-client") unless system(*Programs.words("/usr/bin/python3", "-c",
                                                                       "import prometheus_client"), err: File::NULL)
    out, err, status = Open3.capture3(*Programs.words("/usr/bin/python3", "-c", PYTHON, format), stdin_data: text)
    assert_predicate status, :success?, err
    JSON.parse(out).to_h { |name, *rest| [name, rest] }
  end

  def test_both_formats
    command = run_cluster(APP, config: config(2))
    parent = { "traceparent" => "00-#{TRACE}-00f067aa0ba902b7-01" }
    request(command, "/slow", fields: parent)
    %w[/odd /fail /].each { |path| request(command, path) }
    assert(eventually { fetch.last[/^abaca_requests_total (\d+)/, 1] == "4" && fetch.last.scan(/_count{/).size > 3 })
    plain = parse("plain", fetch.last)
    _, fields, text = fetch(fields: { "Accept" => "#{OPEN};version=1.0.0,text/plain;q=0.5" })
    assert_equal "#{OPEN}; version=1.0.0; charset=utf-8", fields["Content-Type"]
    assert text.end_with?("\n# EOF\n")
    open = parse("open", text)
    check_alike(plain, open)
    check_exemplar(open) if Abaca::Platform.here.has?(:memfd)
    check_by_promtool(fetch.last)
  end

  def test_which_format
    run_cluster(APP, config: config(1, "silence_single_worker_warning"), count: 1)
    ["", "*/*", "text/plain", "#{OPEN};q=0", "#{OPEN};q=0.4, text/plain;q=0.5"].each do |accept|
      assert_equal "text/plain; version=0.0.4; charset=utf-8", fetch(fields: { "Accept" => accept })[1]["Content-Type"]
    end
    [OPEN, "text/plain;q=0.3;version=0.0.4,#{OPEN};version=0.0.1;q=0.5"].each do |accept|
      assert_match(/\A#{OPEN}; version=1\.0\.0/, fetch(fields: { "Accept" => accept })[1]["Content-Type"])
    end
  end

  private

  # Python gives counters of both formats names without a suffix.
  def check_alike(plain, open)
    info = plain.delete("abaca_build_info")
    assert_equal "gauge", info.first
    assert_equal "info", open.delete("abaca_build").first
    assert_equal plain.transform_values(&:first), open.transform_values(&:first)
    assert_equal plain.keys.sort, open.keys.sort
    labels = open.fetch(DURATION).last.map { |_, of, *| of["http_route"] }.compact.uniq
    assert_equal ["/\"quoted\"\\\n?é\\xC2\\x9B\\xE2\\x80\\xAE"], labels
    assert_equal labels, plain.fetch(DURATION).last.map { |_, of, *| of["http_route"] }.compact.uniq
  end

  def check_exemplar(open)
    noted = open.fetch(DURATION).last.select(&:last)
    assert_equal 1, noted.size
    assert_includes %w[0.025 0.05 0.075], noted.first[1]["le"]
    labels, value, at = noted.first.last
    assert_equal({ "trace_id" => TRACE, "span_id" => "00f067aa0ba902b7" }, labels)
    assert_in_delta 0.03, value, 0.02
    assert_in_delta Time.now.to_f, at, 20
  end

  # Which is large, so that bin/setup does not install it.
  def check_by_promtool(text)
    return unless Programs.find("promtool")

    out, err, status = Open3.capture3(*Programs.words("promtool", "check", "metrics"), stdin_data: text)
    assert_predicate status, :success?, "#{out}#{err}"
  end
end
