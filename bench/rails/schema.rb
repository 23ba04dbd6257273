# frozen_string_literal: true

# Makes the table of apps/rails in the database of DATABASE_URL, and fills it with a thousand rows.
require "active_record"

ActiveRecord::Base.establish_connection(ENV.fetch("DATABASE_URL"))
ActiveRecord::Base.connection.create_table(:parcels, force: true) do |table|
  table.string :recipient, null: false
  table.integer :weight, null: false
end
parcels = Class.new(ActiveRecord::Base) { self.table_name = "parcels" }
parcels.insert_all(Array.new(1000) { |nth| { recipient: "Recipient #{nth}", weight: nth * 10 } })
