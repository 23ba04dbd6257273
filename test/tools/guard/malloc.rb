# frozen_string_literal: true

# Around the app of bench/guard/server.rb: one malloc more.
lambda do |app|
  held = "x" * 64
  lambda do |env|
    held.clear
    held << "0123456789abcdef0123456789abcdef0123456789abcdef"
    app.call(env)
  end
end
