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

  # The server has ended a request's work, where its fiber waits. It is no StandardError: nothing has
  # failed that a `rescue => e` could put right, and whoever rescued it to try again or to answer something else
  # would go on with work that nobody wants. `ensure` blocks run.
  class Cancelled < Exception; end # rubocop:disable Lint/InheritException -- see above

  # The request took longer than `request_timeout`. Logged; the client gets 504, or a response that
  # breaks off when one had begun.
  class DeadlineExceeded < Cancelled; end

  # The client has gone, and `cancel_on_disconnect` is set. Not worth a line in the log.
  class ClientGone < Cancelled; end

  # The server is stopping, and `shutdown_timeout` is over. Not worth a line in the log; the client gets 503, or a
  # response that breaks off when one had begun.
  class Shutdown < Cancelled; end

  # A mistake of Abaca's own.
  class InternalError < Error; end
end
