# frozen_string_literal: true

class SessionsController < ApplicationController
  def create
    session[:operator] = true
    head :no_content
  end
end
