# frozen_string_literal: true

class JobsController < ApplicationController
  skip_forgery_protection

  def create
    NoteJob.perform_later(params[:title])
    head :accepted
  end

  def show = render(plain: Note.where(title: params[:title]).count.to_s)
end
