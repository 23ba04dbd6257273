# frozen_string_literal: true

class LoadsController < ApplicationController
  def show
    notes = Note.where(title: "stream").load_async
    count = Note.async_count
    render plain: [notes.to_a.size, count.value.class, Current.visitor].join(" ")
  end

  def visitor
    before = Current.visitor
    sleep(0.02)
    Note.connection_pool.with_connection { |connection| connection.select_value("SELECT 1") }
    render plain: [before, Current.visitor].join(" ")
  end
end
