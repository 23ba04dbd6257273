# frozen_string_literal: true

# What `bin/rails active_storage:install` copies.
Rails.application.config.paths["db/migrate"] << ActiveStorage::Engine.root.join("db/migrate").to_s
