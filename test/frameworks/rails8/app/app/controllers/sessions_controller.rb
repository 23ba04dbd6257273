# frozen_string_literal: true

class SessionsController < ApplicationController
  def new
    render inline: %(<input name="authenticity_token" value="<%= form_authenticity_token %>">)
  end

  def create
    session[:operator] = true
    head :no_content
  end
end
