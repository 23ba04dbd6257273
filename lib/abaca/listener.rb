# frozen_string_literal: true

require_relative "addresses"

module Abaca
  # A socket that listens, and that no server has yet: it may be opened in one process and served in those that the
  # process forks. Opened by .tcp, .unix and .adopt, which are native.
  class Listener
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
