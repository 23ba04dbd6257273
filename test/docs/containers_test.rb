# frozen_string_literal: true

require "test_helper"
require "json"
require "open3"
require "yaml"
require "support/examples_case"
require "support/process_case"

# The examples of docs/deployment.md for containers: that each is well formed, that they agree with each other and with
# the server's own times, and that what they start serves and stops.
class ContainersTest < Minitest::Test
  include ExamplesCase
  include ProcessCase

  INSTRUCTIONS = %w[FROM RUN CMD EXPOSE ENV COPY USER WORKDIR STOPSIGNAL HEALTHCHECK].freeze
  # Of Kamal 2, which refuses others.
  KAMAL = { nil => %w[service image servers proxy deploy_timeout drain_timeout registry builder env],
            "proxy" => %w[host ssl app_port healthcheck response_timeout],
            "healthcheck" => %w[path interval timeout] }.freeze
  HEROKU = 30 # seconds from TERM to KILL

  # Its instructions: Array of the name and its text.
  def dockerfile
    @dockerfile ||= example("Dockerfile").gsub(/^#.*\n/, "").gsub(/\\\n\s*/, "").lines(chomp: true)
                                         .reject(&:empty?).map { |line| line.split(" ", 2) }
  end

  def instruction(name) = dockerfile.reverse.assoc(name).last

  # The words of a command, which must be there without a shell.
  def words(text) = JSON.parse(text[/\[.*\]\z/])

  # Of the image.
  def variables
    dockerfile.select { |name,| name == "ENV" }.flat_map { |_, text| text.split }.to_h { |word| word.split("=", 2) }
  end

  def deployment = @deployment ||= YAML.load_stream(example("kubernetes.yml"))

  def pod = deployment.first.dig("spec", "template", "spec")

  def container = pod["containers"].first

  def kamal = @kamal ||= YAML.safe_load(example("deploy.yml"))

  def test_the_dockerfile_is_well_formed
    assert_empty dockerfile.map(&:first) - INSTRUCTIONS
    stages = dockerfile.filter_map { |name, text| text[/ AS (\w+)\z/, 1] if name == "FROM" }
    sources = dockerfile.filter_map { |name, text| text[/--from=(\w+)/, 1] if name == "COPY" }
    assert_empty sources - stages
    dockerfile.each do |name, text|
      next unless name == "RUN"

      out, status = Open3.capture2e("sh", "-n", stdin_data: text)
      assert_predicate status, :success?, "#{text}: #{out}"
    end
  end

  # What the image runs, with the page's settings: it serves, its health check says so, and TERM ends it. Here, the
  # command is that of this tree.
  def test_what_the_image_runs
    File.write(File.join(@directory, "config.ru"), "run ->(_env) { [200, {}, ['hello']] }")
    Dir.mkdir(File.join(@directory, "config"))
    File.write(File.join(@directory, "config/abaca.rb"), page[/```ruby\n(.*?)```/m, 1])
    assert_equal %w[bundle exec abaca], words(instruction("CMD"))
    command = start_abaca(env: variables.slice("RACK_ENV").merge("PORT" => "0"))
    assert_equal 0, health(command.port)
    command.signal(:TERM)
    command.wait_for(/Gracefully stopping/)
    command.signal(:TERM)
    assert_equal 0, command.wait.exitstatus
    refute_equal 0, health(command.port)
  end

  def test_ports_agree
    port = variables["PORT"]
    assert_equal [port] * 4, [instruction("EXPOSE"), kamal.dig("proxy", "app_port").to_s,
                              container["ports"].first["containerPort"].to_s, of_container("PORT")]
    assert_equal [port], settings[:binds].map { |bind| bind.port.to_s }
  end

  def test_paths_agree
    probes = %w[startupProbe readinessProbe livenessProbe].map { |name| container.dig(name, "httpGet", "path") }
    assert_equal settings.values_at(:readiness, :readiness, :liveness), probes
    assert_equal settings[:readiness], kamal.dig("proxy", "healthcheck", "path")
    assert_includes instruction("HEALTHCHECK"), "'#{settings[:liveness]}'"
  end

  def test_nothing_is_killed_before_its_time
    before_term = Integer(container.dig("lifecycle", "preStop", "exec", "command").last)
    assert_operator pod["terminationGracePeriodSeconds"], :>=, before_term + patience(settings)
    assert_operator kamal.dig("servers", "web", "options", "stop-timeout"), :>=, patience(settings)
    assert_operator Integer(section("Docker")[/docker stop -t (\d+)/, 1]), :>=, patience(settings)
    assert_operator patience(settings.merge(block(section("Heroku")))), :<=, HEROKU
    assert_equal settings[:shutdown_timeout], kamal["drain_timeout"]
  end

  def test_the_page_knows_how_long_a_stop_takes
    beyond = patience(settings) - settings[:shutdown_delay] - settings[:shutdown_timeout]
    assert_includes section("Containers"), "#{beyond.round} seconds in which"
    assert_includes section("Containers"), "that is #{patience(settings).round} seconds"
    %w[abaca.service deploy.yml kubernetes.yml].each do |name|
      assert_match(/together, and #{beyond.round}\b/, example(name))
    end
  end

  def test_kubernetes_is_consistent
    kinds = deployment.map { |object| object.values_at("apiVersion", "kind") }
    assert_equal [["apps/v1", "Deployment"], ["v1", "Service"]], kinds
    labels = deployment.first.dig("spec", "template", "metadata", "labels")
    assert_equal labels, deployment.first.dig("spec", "selector", "matchLabels")
    assert_equal labels, deployment.last.dig("spec", "selector")
    ports = %w[startupProbe readinessProbe livenessProbe].map { |name| container.dig(name, "httpGet", "port") }
    ports << deployment.last.dig("spec", "ports", 0, "targetPort")
    assert_equal [container["ports"].first["name"]], ports.uniq
    assert_equal 0, deployment.first.dig("spec", "strategy", "rollingUpdate", "maxUnavailable")
  end

  def test_kamal_knows_the_keys
    assert_empty kamal.keys - KAMAL[nil]
    assert_empty kamal["proxy"].keys - KAMAL["proxy"]
    assert_empty kamal["proxy"]["healthcheck"].keys - KAMAL["healthcheck"]
    assert_equal %w[clear], kamal["env"].keys
    assert_equal of_container("WEB_CONCURRENCY"), kamal.dig("env", "clear", "WEB_CONCURRENCY")
  end

  def test_the_procfile_runs_what_the_image_runs
    lines = example("Procfile").lines(chomp: true).to_h { |line| line.match(/\A([a-z]+): (\S.*)\z/).captures }
    assert_equal words(instruction("CMD")).join(" "), lines["web"]
  end

  private

  # The value of a variable in the pod.
  def of_container(name) = container["env"].find { |one| one["name"] == name }["value"]

  # The status of the image's health check.
  def health(port)
    ruby, *rest = words(instruction("HEALTHCHECK"))
    assert_equal "ruby", ruby
    Open3.capture2e({ "PORT" => port.to_s }, RbConfig.ruby, *rest).last.exitstatus
  end
end
