# frozen_string_literal: true

require "abaca"

# For tests of docs/deployment.md and its examples: what one says must be what the others say.
module ExamplesCase
  FOLDER = File.expand_path("../../docs/examples", __dir__)

  def example(name) = File.read(File.join(FOLDER, name))

  def page = @page ||= File.read(File.join(FOLDER, "../deployment.md"))

  # The text of the page below a heading.
  def section(heading) = page[/^##+ #{heading}$(.*?)(?=^##|\z)/m, 1] || flunk("no section #{heading}")

  # The first block of Ruby in a text, as a configuration file.
  def block(text)
    Abaca::Config::DSL.new.tap { |dsl| dsl.instance_eval(text[/```ruby\n(.*?)```/m, 1]) }.to_h
  end

  # What the page sets for all examples.
  def settings = @settings ||= block(page)

  # Seconds that a server takes at most from TERM on with these settings: with workers, which takes longer than without.
  def patience(settings)
    config = Abaca::Config.new(settings.except(:binds))
    Abaca::Launcher::Single.patience(config, at_once: false) + Abaca::Launcher::Cluster.const_get(:GRACE)
  end
end
