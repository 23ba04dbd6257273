# frozen_string_literal: true

desc "Write the tables of docs/configuration.md from the table of settings"
task settings: :compile do
  $LOAD_PATH.unshift(File.join(ROOT, "lib"))
  require "abaca"
  require_relative "settings_page"
  page = File.join(ROOT, "docs/configuration.md")
  File.write(page, SettingsPage.render(File.read(page)))
end
