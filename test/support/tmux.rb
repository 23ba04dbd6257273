# frozen_string_literal: true

require "io/console"
require "shellwords"
require "tmpdir"

# A command in a real terminal: tmux, with a socket of its own. bin/setup installs it.
class Tmux
  PROGRAM = ENV["PATH"].split(":").map { |folder| "#{folder}/tmux" }.find { |path| File.executable?(path) }
  SECONDS = 60

  # @param words [Array<String>] the command; when it has ended, its status is shown; when it was stopped,
  #   Enter continues it
  # @param env [Hash{String => String}] that of the command
  def initialize(*words, columns: 80, lines: 24, env: {}, term: "screen-256color", utf8: true)
    @dir = Dir.mktmpdir("tmux")
    File.write("#{@dir}/conf", "set -g status off\nset -g default-terminal #{term}\nset -g remain-on-exit on\n")
    settings = { "LANG" => utf8 ? "C.UTF-8" : "C", "LC_ALL" => "", "LC_CTYPE" => "", **env }
    command = "#{settings.map { |name, value| "#{name}=#{value.shellescape}" }.join(' ')} #{words.shelljoin}"
    shell = "set -m; #{command}; s=$?; [ $s -lt 147 ] || { echo stopped; read x; fg; s=$?; }; " \
            "echo \"ended with $s\"; stty -a | grep -o '.icanon'; sleep 60"
    tmux("-f", "#{@dir}/conf", "new-session", "-d", "-x", columns.to_s, "-y", lines.to_s, "sh", "-c", shell)
  end

  # @return [Array<String>] what is on the screen
  def screen = tmux("capture-pane", "-p").lines(chomp: true)

  # @return [String] the same, after what has left it at the top
  def history = tmux("capture-pane", "-p", "-S", "-")

  # @return [String] what is on the screen, with attributes
  def colors = tmux("capture-pane", "-p", "-e")

  # Presses keys by tmux's names: "Enter", "Up", "C-z", "q".
  def press(*names) = tmux("send-keys", *names)

  # Types a text.
  def type(text) = tmux("send-keys", "-l", text)

  def resize(columns, lines) = tmux("resize-window", "-x", columns.to_s, "-y", lines.to_s)

  # @return [Integer] the process that the terminal was opened for
  def pid = tmux("display-message", "-p", "\#{pane_pid}").to_i

  # @return [Boolean] whether the second screen is shown
  def second? = tmux("display-message", "-p", "\#{alternate_on}").strip == "1"

  # Waits until the screen matches; returns it. Raises with what there was.
  def wait_for(pattern, within: SECONDS)
    limit = now + within
    until pattern.match?(text = screen.join("\n"))
      raise "no #{pattern.inspect} within #{within} s in:\n#{text}" if now > limit

      sleep 0.05
    end
    text
  end

  def close
    tmux("kill-server")
  ensure
    FileUtils.remove_entry(@dir)
  end

  private

  def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)

  def tmux(*words)
    text, status = Open3.capture2e({ "TMUX" => nil }, PROGRAM, "-u", "-S", "#{@dir}/socket", *words)
    raise "tmux #{words.first}: #{text}" unless status.success?

    text.force_encoding(Encoding::UTF_8)
  end
end
