# frozen_string_literal: true

class NewsController < ApplicationController
  skip_forgery_protection

  def create
    ActionCable.server.broadcast("news", { text: params[:text] })
    head :no_content
  end
end
