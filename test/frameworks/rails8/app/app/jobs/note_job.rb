# frozen_string_literal: true

class NoteJob < ApplicationJob
  def perform(title) = Note.create!(title:)
end
