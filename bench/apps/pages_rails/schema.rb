# frozen_string_literal: true

# Makes the tables of this application in the database of DATABASE_URL, and fills them.
require "active_record"

ActiveRecord::Base.establish_connection(ENV.fetch("DATABASE_URL"))
connection = ActiveRecord::Base.connection
connection.create_table(:authors, force: true) { |table| table.string :name, null: false }
connection.create_table(:posts, force: true) do |table|
  table.references :author, null: false
  table.string :title, null: false
  table.text :body, null: false
  table.integer :views, null: false
  table.datetime :created_at, null: false
end
author, post = %w[authors posts].map { |name| Class.new(ActiveRecord::Base) { self.table_name = name } }
author.insert_all(Array.new(20) { |nth| { name: "Author #{nth}" } })
post.insert_all(Array.new(1000) do |nth|
  { author_id: (nth % 20) + 1, title: "Post #{nth} & more", body: "Words of post #{nth}, and others. " * 8,
    views: nth * 1234, created_at: Time.at(1_700_000_000 + (nth * 3600)) }
end)
