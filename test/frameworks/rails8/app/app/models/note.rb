# frozen_string_literal: true

class Note < ApplicationRecord
  HEADING = "Notes"

  has_one_attached :scan
  validates :title, presence: true
end
