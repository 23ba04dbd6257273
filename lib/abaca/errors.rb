# frozen_string_literal: true

# Errors by blame: the class says whose fault it was, and so what is done about it.
module Abaca
  # The base of everything Abaca raises on its own account.
  class Error < StandardError; end

  # Whoever starts the server made a mistake: a bad setting, a taken port, a config.ru that does not
  # load. The command prints the message as one line and ends with 1.
  class ConfigError < Error; end

  # The client has gone, or broke off in the middle of its request. Raised where the app reads the
  # body or waits for the client to take the response; not worth a line in the log.
  class PeerError < Error; end

  # The request's body cannot be read to its end: it is malformed, too large or too slow. Unless the
  # app rescues it, the client gets 400, 413 or 408.
  class BodyError < PeerError; end

  # The client went away in the middle of its body.
  class IncompleteBody < BodyError; end

  # There is no room to keep a body that can be rewound. Logged, and the client gets 507.
  class StorageError < Error; end

  # The app returned what is not a response: a status out of range, an invalid field, a body that
  # answers to nothing. Logged, and the client gets 500.
  class AppError < Error; end

  # A drain ran out of time: raised inside the request's fiber, at the place where it waits.
  class ForceShutdown < Error; end

  # A mistake of Abaca's own.
  class InternalError < Error; end
end
