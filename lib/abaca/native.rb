# frozen_string_literal: true

# Loads the native part. If it is missing, or built for another Ruby, says in one line what to do: Bundler does not
# build a gem from a path.
begin
  require "abaca/abaca"
rescue LoadError => e
  raise unless e.path == "abaca/abaca" || e.message.include?("incompatible library version")

  root = File.expand_path("../..", __dir__)
  raise LoadError, "abaca: the native part is not built for Ruby #{RUBY_VERSION}; build it with: " \
                   "rake -C #{root} compile", [], cause: nil
end
