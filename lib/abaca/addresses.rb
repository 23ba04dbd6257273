# frozen_string_literal: true

module Abaca
  # Turns a host, as people write it, into numeric addresses.
  module Addresses
    LOOPBACK = ["127.0.0.1", "::1"].freeze

    # @param host [String] a name, an address, or an address in brackets
    # @return [Array<String>] at least one
    # @raise [ConfigError] when the name has none
    def self.of(host)
      host = host.to_s.delete_prefix("[").delete_suffix("]")
      return LOOPBACK if host.casecmp?("localhost")
      return [host] if Engine.network?(host) && !host.include?("/")

      Addrinfo.getaddrinfo(host, 0, nil, :STREAM, nil, Socket::AI_PASSIVE).map(&:ip_address).uniq
    rescue SocketError => e
      raise ConfigError, "no address for host #{host.inspect}: #{e.message}"
    end
  end
end
