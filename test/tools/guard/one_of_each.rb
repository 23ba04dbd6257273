# frozen_string_literal: true

# Around the app of bench/guard/server.rb: one object, one malloc and one system call more.
lambda do |app|
  held = "x" * 64
  lambda do |env|
    Object.new
    held.clear
    held << "0123456789abcdef0123456789abcdef0123456789abcdef"
    Process.ppid
    app.call(env)
  end
end
