# frozen_string_literal: true

require_relative "../control/target"

module Abaca
  class Top
    # The server that is looked at: its process, its page, and its control server if it has one.
    class Server
      # `SO_PEERCRED` is a process, a user and a group.
      CREDENTIALS = "iii"
      private_constant :CREDENTIALS

      # @return [Integer] the master's process, or the only one
      attr_reader :pid
      # @return [Page]
      attr_reader :page
      # @return [Control::Target]
      attr_reader :target

      # @param flags [Hash{Symbol => Object}] as for Control::Target; without any, the only server of this user, if
      #   the configuration names none
      # @raise [ConfigError] if there is none, or too many
      # @raise [Error] if it has no page, or another version's
      def initialize(flags)
        @target = Control::Target.new(flags)
        @named = %i[pid pidfile state control_url].any? { |name| @target.public_send(name) }
        find
      end

      # Opens the page that the server has now, if that is another one: it was restarted.
      #
      # @return [Boolean] whether it is
      def renew
        return false if @mark && @mark == mark

        find
        true
      rescue Error, SystemCallError
        false # it has ended, or boots
      end

      # @return [Boolean] whether its process is there
      def there?
        Process.kill(0, @pid)
        true
      rescue Errno::ESRCH
        false
      rescue Errno::EPERM
        true
      end

      # @return [Control::Client, nil]
      def control = @target.control_url && Control::Client.new(@target.control_url)

      private

      def find
        @target.find
        @pid = @target.pid || (@target.control_url ? listener : only)
        @place = Page.place(@pid)
        page = Page.at(@place)
        @page&.close
        @page = page
        @mark = mark
      rescue Errno::ENOENT, Errno::ESRCH
        raise ConfigError, "there is no process #{@pid}"
      rescue Errno::EACCES, Errno::EPERM
        raise ConfigError, "process #{@pid} is another user's: its page cannot be read"
      end

      # Tells the file that is its page from another one, which may get the same number.
      def mark = [@pid, File.stat(@place).ino]

      # The process that listens on a control server's socket, where the system tells.
      def listener
        client = Control::Client.new(@target.control_url)
        client.connect do |socket|
          unless socket.is_a?(UNIXSocket) && defined?(Socket::SO_PEERCRED)
            raise ConfigError, "#{@target.control_url} does not tell its process: name it, or its state file"
          end

          socket.getsockopt(Socket::SOL_SOCKET, Socket::SO_PEERCRED).data.unpack1(CREDENTIALS)
        end
      rescue Control::Client::Failed => e
        raise ConfigError, e.message
      end

      def only
        raise ConfigError, "neither process id nor control server known" if @named

        found = Page.processes
        raise ConfigError, "no server runs here; name its process, -S or -C" if found.empty?
        raise ConfigError, "which server? name one of the processes #{found.sort.join(', ')}" if found.size > 1

        found.first
      end
    end
  end
end
