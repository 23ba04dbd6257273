# frozen_string_literal: true

# Loaded first by a Ruby that shall not know the names that only Linux has.
require "etc"
require "socket"

{ File::Constants => %i[DIRECT NOATIME TMPFILE],
  Process => %i[CLOCK_BOOTTIME CLOCK_BOOTTIME_ALARM CLOCK_MONOTONIC_COARSE CLOCK_REALTIME_ALARM CLOCK_REALTIME_COARSE
                CLOCK_TAI RLIMIT_MSGQUEUE RLIMIT_NICE RLIMIT_RTPRIO RLIMIT_RTTIME RLIMIT_SIGPENDING],
  Socket::Constants => %i[MSG_CONFIRM MSG_ERRQUEUE MSG_MORE MSG_NOSIGNAL MSG_RST SOCK_CLOEXEC SOCK_NONBLOCK
                          SO_ATTACH_FILTER SO_BINDTODEVICE SO_BUSY_POLL SO_DOMAIN SO_INCOMING_CPU SO_MARK SO_PASSCRED
                          SO_PEEK_OFF SO_PEERCRED SO_PEERNAME SO_PRIORITY SO_PROTOCOL TCP_CORK TCP_DEFER_ACCEPT
                          TCP_FASTOPEN TCP_INFO TCP_KEEPIDLE TCP_LINGER2 TCP_QUICKACK TCP_SYNCNT TCP_USER_TIMEOUT
                          TCP_WINDOW_CLAMP] }.each do |constants, names|
  [constants, *(Socket if constants == Socket::Constants)].each do |place|
    names.each { |name| place.send(:remove_const, name) if place.const_defined?(name, false) }
  end
end
