# frozen_string_literal: true

class CacheController < ApplicationController
  def show
    text = Rails.cache.fetch(params[:key]) do
      sleep 0.01
      "made for #{params[:key]}"
    end
    render plain: text
  end

  def count
    render plain: Rails.cache.increment(params[:key]).to_s
  end
end
