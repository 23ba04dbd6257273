# frozen_string_literal: true

# For tests of what a platform may have to do without (docs/platforms.md).
module PlatformNeeds
  # Skips the test where the platform lacks this part.
  def need_platform(part)
    require "abaca"
    here = Abaca::Platform.here
    skip here.lack(part) unless here.has?(part)
  end

  # Skips the test where the machine has no name for itself.
  def need_localhost
    Addrinfo.getaddrinfo("localhost", nil, nil, :STREAM)
  rescue SocketError
    skip "localhost has no address here: there is no /etc/hosts"
  end

  # Skips the test where the loops wait with another back end, for those that look at what only this one shows.
  def need_poller(name)
    require "abaca"
    here = Abaca::Platform.here.poller
    skip "the loops of this platform wait with #{here}" unless here == name
  end
end
