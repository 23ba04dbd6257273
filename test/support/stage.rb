# frozen_string_literal: true

# Runs `abaca top` on a page of a test's making: `ruby stage.rb FOLDER [flags]`. The file `page.rb` in the folder is
# read again whenever it has changed; its last value is a FakePage.
require "abaca"
require_relative "fake_page"

# A server whose page is a file.
class Stage
  # What of Control::Target the acts need.
  Target = Struct.new(:control_url, :control_token)

  attr_reader :target

  def initialize(dir)
    @dir = dir
    @target = Target.new
  end

  def pid = Process.pid
  def there? = true
  def renew = false

  # A page that is what the file says now.
  def page = Pages.new("#{@dir}/page.rb")

  # Reads the file when it is looked at.
  class Pages
    def initialize(path) = @path = path
    def slots = now.slots
    def sums = now.sums
    def events = now.events

    private

    def now
      changed = File.mtime(@path)
      return @page if changed == @changed

      @changed = changed
      @page = eval(File.read(@path, encoding: "UTF-8"), TOPLEVEL_BINDING, @path) # rubocop:disable Security/Eval -- the test's own file
    end
  end
end

# The command with that server in place of one that is found.
class StagedTop < Abaca::Top
  private

  def show(_server = nil) = super(Stage.new(ENV.fetch("STAGE")))
end

Abaca::Top::Server.define_singleton_method(:new) { |_flags| nil }
exit StagedTop.run(ARGV)
