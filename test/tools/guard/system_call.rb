# frozen_string_literal: true

# Around the app of bench/guard/server.rb: one system call more.
lambda do |app|
  lambda do |env|
    Process.ppid
    app.call(env)
  end
end
