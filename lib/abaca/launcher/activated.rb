# frozen_string_literal: true

require_relative "../config/bind"
require_relative "inherited"

module Abaca
  class Launcher
    # Sockets that another program, such as systemd, has opened for this process: LISTEN_FDS tells how many there are,
    # from descriptor 3 on, LISTEN_PID for which process they are, and LISTEN_FDNAMES what they are called.
    module Activated
      FIRST = 3
      VARIABLES = %w[LISTEN_FDS LISTEN_PID LISTEN_FDNAMES].freeze
      # Their number at most, which a wrong variable may exceed.
      MOST = 1024
      private_constant :FIRST, :VARIABLES, :MOST

      class << self
        # @param env [Hash{String => String}, ENV] loses the variables, if they are for this process
        # @return [Array<Inherited::Place>]
        # @raise [ConfigError] if there is a descriptor that is no socket
        def places(env)
          return [] unless env["LISTEN_PID"] == Process.pid.to_s

          count, _, names = VARIABLES.map { |name| env.delete(name) }
          names = names.to_s.split(":")
          Array.new(Integer(count, 10, exception: false).to_i.clamp(0, MOST)) do |i|
            Inherited::Place.new(url(FIRST + i), [FIRST + i], "activated", names[i])
          end
        end

        # @param place [Inherited::Place]
        # @return [Config::Bind] that it is for
        def bind(place)
          path = place.url[%r{\Aunix://(.*)}m, 1]
          path ? Config::Bind.unix(path) : Config::Bind.parse(place.url)
        end

        private

        # As a configuration would have it.
        def url(fd)
          address = Socket.for_fd(fd).tap { |socket| socket.autoclose = false }.local_address
          return "unix://#{address.unix_path.sub(/\A\0/, '@')}" if address.unix?
          return "fd://#{fd}" unless address.ip?

          host, port = address.ip_unpack
          "tcp://#{address.ipv6? ? "[#{host}]" : host}:#{port}"
        rescue SystemCallError => e
          raise ConfigError, "descriptor #{fd} of LISTEN_FDS: #{e.message}"
        end
      end
    end
  end
end
