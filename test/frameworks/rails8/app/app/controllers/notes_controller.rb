# frozen_string_literal: true

class NotesController < ApplicationController
  def index = @notes = Note.order(:id).last(20)

  def new = @note = Note.new

  def show = @note = Note.find(params[:id])

  def create
    @note = Note.new(params.expect(note: %i[title scan]).merge(visitor: Current.visitor))
    @note.save ? redirect_to(@note) : render(:new, status: :unprocessable_content)
  end
end
