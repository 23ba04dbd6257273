# frozen_string_literal: true

require_relative "board_case"
require "support/tmux"

# For tests of all faces of one server at once: the page in Chromium, `abaca top` in a terminal, the control server.
module FacesCase
  include BoardCase

  TOKEN = { Authorization: "Bearer secret" }.freeze

  def setup
    super
    need_program("tmux")
  end

  def teardown
    @terminal&.close
    super
  end

  # A server, a browser that shows its requests, and a terminal.
  def stage(*arguments, app:)
    serve("--control-url", "tcp://127.0.0.1:0", "--control-token", "secret", *arguments, app:)
    look(2)
    @terminal = Tmux.new(*top("-d", "0.2"), columns: 120)
    @terminal.wait_for(/q quit$/)
  end

  # The words of `abaca top` for the server.
  def top(*flags)
    [RbConfig.ruby, *$LOAD_PATH.map { |path| "-I#{path}" }, "exe/abaca", "top", *flags, @server.pid.to_s]
  end

  def ask(path)
    answer = request("GET", path, **TOKEN)
    assert_equal "200", answer.code, answer.body
    answer.body
  end

  def json(path) = JSON.parse(ask(path), symbolize_names: true)

  def cookie = @cookie ||= follow(JSON.parse(request("POST", "/link", **TOKEN).body).fetch("url"))
end
