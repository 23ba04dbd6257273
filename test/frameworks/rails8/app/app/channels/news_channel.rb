# frozen_string_literal: true

class NewsChannel < ActionCable::Channel::Base
  def subscribed = stream_from("news")

  def tell(data) = ActionCable.server.broadcast("news", { text: data["text"], notes: Note.where(title: "none").count })
end
