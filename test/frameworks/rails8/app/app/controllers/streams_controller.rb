# frozen_string_literal: true

class StreamsController < ApplicationController
  include ActionController::Live

  GATES = Concurrent::Map.new { |gates, name| gates.compute_if_absent(name) { Queue.new } }
  LEFT = Concurrent::Set.new
  skip_forgery_protection

  # Each event comes when it has been allowed. With `write`, all of them come from a transaction, which is rolled back.
  def show
    response.headers["Content-Type"] = "text/event-stream"
    response.headers["Last-Modified"] = Time.now.httpdate
    params[:write] ? write : tell_all
  rescue ActionController::Live::ClientDisconnected
    LEFT << params[:id]
  ensure
    response.stream.close
  end

  def next
    GATES[params[:id]] << params[:word]
    head :no_content
  end

  # Whether its client has left before the end.
  def left = render(plain: LEFT.include?(params[:id]).to_s)

  private

  def write
    Note.transaction do
      Note.create!(title: "stream", visitor: params[:id])
      tell_all
      raise ActiveRecord::Rollback
    end
  end

  def tell_all
    tell("start")
    while (word = GATES[params[:id]].pop) != "end"
      tell(word)
    end
  end

  def tell(word)
    mine = Note.where(title: "stream").distinct.pluck(:visitor).sort.join(",")
    response.stream.write("data: #{word} #{Current.visitor} [#{mine}]\n\n")
  end
end
