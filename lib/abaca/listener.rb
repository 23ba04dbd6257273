# frozen_string_literal: true

require_relative "addresses"

module Abaca
  # A socket that listens, and that no server has yet: it may be opened in one process and served in those that the
  # process forks. Opened by .tcp, .unix and .adopt, which are native.
  class Listener
    # @param place [Array] as #place returns it
    # @param scheme [String] of a TCP port
    # @return [String] where it listens
    def self.url(place, scheme)
      kind, name, port = place
      return "unix://#{name}" if kind == :unix

      "#{scheme}://#{name.include?(':') ? "[#{name}]" : name}:#{port}"
    end

    # A peer that has time to read has time to answer.
    #
    # @param limits [Hash{Symbol => Integer}] of the connections that are accepted here
    # @return [Integer] seconds after which a silent peer is taken for dead, for .tcp; 0: never
    def self.dead_after(limits)
      dead, slow = limits.values_at(:dead_peer_timeout, :write_timeout)
      dead.zero? ? 0 : [dead, slow].max
    end

    # Listens on every address of a host.
    #
    # @param host [String] an address or a name
    # @param port [Integer] 0 lets the kernel choose, the same port for all addresses where it is free
    # @param log [Log]
    # @param options [Hash{Symbol => Object}] for .tcp
    # @return [Array<Listener>] at least one
    # @raise [ConfigError] if the host has no address
    # @raise [SystemCallError] if the port is taken or not allowed; then none is open
    def self.of_host(host, port, log:, **options)
      first, *others = Addresses.of(host)
      opened = [first(first, port, log, options)]
      others.each { |address| opened << other(address, opened.first.port, port, log, options) }
      opened.compact
    rescue SystemCallError
      opened&.each { |listener| listener&.close }
      raise
    end

    # A machine without IPv6 still serves on all its addresses.
    def self.first(address, port, log, options)
      tcp(address, port, **options)
    rescue Errno::EAFNOSUPPORT, Errno::EADDRNOTAVAIL
      raise unless address == "::"

      log.warn("no IPv6 on this machine: listening on 0.0.0.0 in place of [::]")
      tcp("0.0.0.0", port, **options)
    end
    private_class_method :first

    def self.other(address, chosen, wanted, log, options)
      tcp(address, chosen, **options)
    rescue Errno::EAFNOSUPPORT, Errno::EADDRNOTAVAIL
      log.debug("#{address} cannot be listened on here")
      nil
    rescue Errno::EADDRINUSE
      raise unless wanted.zero?

      tcp(address, 0, **options)
    end
    private_class_method :other
  end
end
