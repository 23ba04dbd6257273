# frozen_string_literal: true

require "fileutils"
require "socket"
require "tmpdir"
require_relative "../addresses"
require_relative "address"
require_relative "heir"

module Abaca
  class Control
    # The sockets that a control server listens on, and their files.
    class Places
      # @return [Address] where they are reached
      attr_reader :address
      # @return [Array<TCPServer, UNIXServer>]
      attr_reader :sockets

      # @param address [Address]
      # @param asked [String, nil] the setting that it is from
      # @param heir [Heir, nil] the place of the program before this one
      # @param what [String] what is to listen there
      # @raise [ConfigError] if it cannot be listened at
      def initialize(address, asked: nil, heir: nil, what: "the control server")
        @asked = asked
        @pid = Process.pid
        heir&.for?(asked, absolute(address)) ? inherit(address, heir) : listen(address, heir)
      rescue SystemCallError => e
        remove_folder
        raise ConfigError, "cannot listen on #{@address || address} for #{what}: #{e.message}"
      end

      # @return [Heir] for the next program of this process
      def heir = Heir.new(@asked, @address.to_s, @sockets.map(&:fileno))

      # Closes them, and removes their files. Idempotent.
      def close
        forget
        remove
      end

      # In a forked child: lets go of them.
      def forget = @sockets.each(&:close)

      # Removes their files; a forked child removes nothing.
      def remove
        return unless @pid == Process.pid

        remove_file
        remove_folder
      end

      private

      def listen(address, heir)
        heir&.discard
        @address = address.auto? ? temporary : absolute(address)
        @sockets = @address.path ? [unix] : tcp
      end

      def inherit(address, heir)
        @address = Address.parse(heir.url)
        @folder = File.dirname(@address.path) if address.auto?
        kind = @address.path ? UNIXServer : TCPServer
        @sockets = heir.fds.map { |fd| kind.for_fd(fd).tap { |socket| socket.close_on_exec = true } }
        @file = File.lstat(@address.path) if @address.path && !@address.abstract?
      end

      # A path in the working directory of this process means nothing to others.
      def absolute(address)
        return address if address.path.nil? || address.abstract?

        Address.new(path: File.expand_path(address.path), mode: address.mode)
      end

      # The folder is its owner's alone. The path is short: on macOS, 104 bytes are the most, and half of them are the
      # name of the folder for temporary files.
      def temporary
        @folder = Dir.mktmpdir("abaca-")
        Address.new(path: File.join(@folder, "abaca-status-#{@pid}"), mode: 0o600)
      end

      def unix
        return UNIXServer.new("\0#{@address.path.delete_prefix('@')}") if @address.abstract?

        bound = bind
        @file = File.lstat(@address.path)
        bound
      end

      def bind
        create
      rescue Errno::EADDRINUSE
        raise if live?

        File.delete(@address.path)
        create
      end

      # The file has its permissions from the beginning.
      def create
        before = File.umask(0o777 & ~@address.mode)
        UNIXServer.new(@address.path)
      ensure
        File.umask(before)
      end

      # A server that was killed leaves its file.
      def live?
        UNIXSocket.new(@address.path).close
        true
      rescue Errno::ECONNREFUSED
        !File.socket?(@address.path)
      end

      def tcp
        opened = []
        Addresses.of(@address.host).each do |host|
          opened << TCPServer.new(host, opened.empty? ? @address.port : opened.first.addr[1])
        rescue Errno::EADDRNOTAVAIL, Errno::EAFNOSUPPORT
          raise if opened.empty? # a machine without IPv6 has localhost nevertheless
        end
        @address = Address.new(host: @address.host, port: opened.first.addr[1])
        opened
      rescue SystemCallError
        opened.each(&:close)
        raise
      end

      # Another server may have put its own file there.
      def remove_file
        return unless @file

        found = File.lstat(@address.path)
        File.delete(@address.path) if [found.dev, found.ino] == [@file.dev, @file.ino]
      rescue SystemCallError
        nil
      end

      def remove_folder
        FileUtils.remove_entry(@folder, true) if @folder
      end
    end
  end
end
