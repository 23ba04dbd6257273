# frozen_string_literal: true

class CreateNotes < ActiveRecord::Migration[8.1]
  def change
    create_table(:notes) do |t|
      t.string :title, null: false
      t.string :visitor
      t.timestamps
    end
  end
end
