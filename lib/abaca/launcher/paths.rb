# frozen_string_literal: true

require_relative "../app_loader"
require_relative "../atomic_file"

module Abaca
  class Launcher
    # The folders and files that a configuration names. Finds those that the boot would fail at, and creates, changes
    # and empties none of them meanwhile. An error names the setting and where it comes from.
    class Paths
      # What is used before the app is loaded, and after: an app may make folders.
      BEFORE_APP = %i[directory redirect].freeze
      AFTER_APP = %i[pidfile state_path binds control_url].freeze

      # @param config [Config]
      def initialize(config)
        @config = config
      end

      # @param settings [Array<Symbol>] of BEFORE_APP and AFTER_APP
      # @raise [ConfigError] for the first one whose folder or file is of no use
      def check(settings) = settings.each { |name| send(name) }

      # Checks, before the app is loaded, what is used after that. A missing folder is not a mistake yet: the app may
      # make it.
      #
      # @raise [ConfigError]
      def foresee
        AFTER_APP.each do |name|
          send(name)
        rescue ConfigError => e
          raise unless e.cause.is_a?(Errno::ENOENT)
        end
      end

      # @return [Array<String>] what the boot would fail at, a line for each setting
      def mistakes
        [*BEFORE_APP, *(:rackup if named?), *AFTER_APP, :certificates].filter_map { |name| mistake(name) }
      end

      # @return [Array<String>] a line for each certificate, once #mistakes has found none in them
      def certificate_lines = @certificates || []

      # @return [Array<String>] what it would fail at here, though the configuration has no mistake
      def warnings = named? ? [] : [*mistake(:rackup)]

      # @return [String, nil] the working directory to be
      def folder = @folder ||= @config[:directory] && use(:directory) { File.expand_path(@config[:directory]) }

      # Runs a block that makes use of a setting's path.
      #
      # @param name [Symbol] the setting
      # @param what [String, nil] what the block does: "write /run/app.pid"
      # @raise [ConfigError] in place of what the system or Ruby say of the path
      def use(name, what = nil)
        yield
      rescue SystemCallError, ArgumentError, TypeError => e
        raise ConfigError, [@config.place(name), setting(name), text(what, e)].compact.join(": ")
      end

      private

      # Whether the configuration names its rackup file.
      def named? = @config.origin(:rackup) != "default"

      def mistake(name)
        check([name])
        nil
      rescue ConfigError => e
        e.message
      end

      # As files call it.
      def setting(name) = Config::SETTINGS.fetch(name).methods_of_file.first || name

      def text(what, error)
        reason = error.is_a?(SystemCallError) ? SystemCallError.new(nil, error.errno).message : error.message
        what ? "cannot #{what}: #{reason}" : reason
      end

      # --- the settings ---

      def directory
        return unless folder

        use(:directory, "change to #{folder}") { enter(folder) }
      end

      def redirect
        (@config[:redirect] || {}).values_at(:stdout, :stderr).compact.each { |path| file(:redirect, path) }
      end

      def rackup
        AppLoader.find(@config[:rackup], folder || Dir.pwd) unless @config[:app]
      end

      def pidfile = atomic_file(:pidfile)

      def state_path = atomic_file(:state_path)

      def binds
        @config.binds.each { |bind| socket(:binds, bind.path, bind) if bind.unix? }
      end

      # Read from a folder that may not be the working directory yet.
      def certificates = @certificates = TLS::Keeper.new(@config, nil, folder: folder || Dir.pwd).check

      def control_url
        url = @config[:control_url] or return

        socket(:control_url, Control::Address.parse(url).path, url)
      end

      # --- what may be wrong ---

      def file(name, path)
        use(name, "write #{path}") { write(File.expand_path(path, folder)) }
      end

      # One that is replaced as a whole, in its folder.
      def atomic_file(name)
        path = @config[name] or return

        use(name, "write #{path}") do
          path = File.expand_path(path, folder)
          raise Errno::EISDIR if File.directory?(path)

          AtomicFile.replaces?(path) ? check_folder_of(path) : write(path)
        end
      end

      # A file that is there may be the socket of a server that has gone, or of one that runs.
      def socket(name, path, url)
        return unless path

        use(name, "listen on #{url}") do
          next need_abstract_sockets if path.start_with?("@")

          path = File.expand_path(path, folder)
          raise Errno::EADDRINUSE if File.exist?(path) && !File.socket?(path)

          room(path)
        end
      end

      def need_abstract_sockets
        raise ArgumentError, Platform.here.lack(:abstract_sockets) unless Platform.here.has?(:abstract_sockets)
      end

      def enter(path)
        raise Errno::ENOTDIR unless File.stat(path).directory?
        raise Errno::EACCES unless File.executable?(path)
      end

      def write(path)
        raise Errno::EISDIR if File.directory?(path)
        return room(path) unless File.exist?(path)
        raise Errno::EACCES unless File.writable?(path)
      end

      # Whether a file can be made where a link leads.
      def room(path) = check_folder_of(File.realdirpath(path))

      def check_folder_of(path)
        folder = File.dirname(path)
        enter(folder)
        raise Errno::EACCES unless File.writable?(folder)
      end
    end
  end
end
