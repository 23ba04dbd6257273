# frozen_string_literal: true

# Errors by blame: the class says whose fault it was, and so what happens.
module Abaca
  # The base of everything that Abaca itself raises.
  class Error < StandardError; end

  # A mistake in how the server is started: a bad setting, a taken port, a config.ru that does not load. The command
  # prints the message as one line and ends with 1.
  class ConfigError < Error; end

  # The client has disconnected, perhaps in the middle of its request. Raised where the app reads the body or waits
  # for the client to take the response; not worth a line in the log.
  class PeerError < Error; end

  # The request's body cannot be read to its end: it is malformed, too large or too slow. Unless the
  # app rescues it, the client gets 400, 413 or 408.
  class BodyError < PeerError; end

  # The client disconnected in the middle of its body.
  class IncompleteBody < BodyError; end

  # There is no room to keep a rewindable body. Logged, and the client gets 507.
  class StorageError < Error; end

  # The app returned what is not a response: a status out of range, an invalid field, an invalid body. Logged, and the
  # client gets 500.
  class AppError < Error; end

  # The base of every cancellation: the work of a fiber or thread is ended from outside, at the place where it waits.
  #
  #   Cancelled
  #     DeadlineExceeded      the request took too long
  #     ClientGone            its client went away
  #     EndedByOperator       somebody has ended it
  #     Shutdown              the server stops
  #     FiberPool::Cancelled  the ticket of a job was cancelled
  #
  # It is not a StandardError: nothing has failed that a `rescue => e` could put right, and code that rescues it to try
  # again, or to answer something else, would continue work that nobody wants. `ensure` blocks run.
  class Cancelled < Exception; end # rubocop:disable Lint/InheritException -- see above

  # The request took longer than `request_timeout`. Logged; the client gets 504, or a response that breaks off if one
  # had begun.
  class DeadlineExceeded < Cancelled; end

  # The client has disconnected, and `cancel_on_disconnect` is set. Not worth a line in the log.
  class ClientGone < Cancelled; end

  # An operator has ended the request: `abacactl cancel`, Server#cancel. Logged; the client gets 503, or a response that
  # breaks off if one had begun.
  class EndedByOperator < Cancelled; end

  # The server is stopping, and `shutdown_timeout` is over. Not worth a line in the log; the client gets 503, or a
  # response that breaks off when one had begun.
  class Shutdown < Cancelled; end

  # A mistake of Abaca's own.
  class InternalError < Error; end
end
