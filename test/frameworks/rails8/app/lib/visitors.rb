# frozen_string_literal: true

# Sets the visitor outside of the controllers, as a gem for sign-in does.
class Visitors
  def initialize(app) = @app = app

  def call(env)
    Current.visitor = env["HTTP_X_VISITOR"]
    @app.call(env)
  end
end
