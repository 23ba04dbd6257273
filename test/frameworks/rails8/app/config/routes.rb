# frozen_string_literal: true

Rails.application.routes.draw do
  get "up" => "rails/health#show", as: :rails_health_check
  root "notes#index"
  resources :notes, only: %i[index new create show]
  resources :streams, only: :show do
    post :next, on: :member
    get :left, on: :member
  end
  get "cache/:key" => "cache#show"
  get "cache/:key/count" => "cache#count"
  get "loads" => "loads#show"
  get "visitor" => "loads#visitor"
  post "jobs" => "jobs#create"
  get "jobs/:title" => "jobs#show"
  post "news" => "news#create"
  get "login" => "sessions#new"
  post "login" => "sessions#create"
  constraints(->(request) { request.session[:operator] }) { mount Abaca::Web.new(acts: true) => "/abaca" }
end
