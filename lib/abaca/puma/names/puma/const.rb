# frozen_string_literal: true

# Puma, as gems see it.
module Puma
  # Values that configuration files and plugins read.
  module Const
    # The version of Puma whose names these are, for plugins that ask it what they may call.
    PUMA_VERSION = VERSION = "8.0.2"
    CODE_NAME = "Abaca #{Abaca::VERSION}".freeze
    SUPPORTED_HTTP_METHODS = %w[HEAD GET POST PUT DELETE OPTIONS TRACE PATCH QUERY].freeze
    IANA_HTTP_METHODS = %w[
      HEAD GET POST PUT DELETE OPTIONS TRACE PATCH ACL BASELINE-CONTROL BIND CHECKIN CHECKOUT CONNECT COPY LABEL
      LINK LOCK MERGE MKACTIVITY MKCALENDAR MKCOL MKREDIRECTREF MKWORKSPACE MOVE ORDERPATCH PRI PROPFIND
      PROPPATCH QUERY REBIND REPORT SEARCH UNBIND UNCHECKOUT UNLINK UNLOCK UPDATE UPDATEREDIRECTREF
      VERSION-CONTROL
    ].freeze
  end
end
