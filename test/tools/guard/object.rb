# frozen_string_literal: true

# Around the app of bench/guard/server.rb: one object more.
lambda do |app|
  lambda do |env|
    Object.new
    app.call(env)
  end
end
