# frozen_string_literal: true

# Around the app of bench/guard/server.rb: nothing more.
->(app) { ->(env) { app.call(env) } }
