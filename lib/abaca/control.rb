# frozen_string_literal: true

require_relative "control/puma_stats"
require_relative "control/state_file"

module Abaca
  # How others control a process that the command has started: its control server, if it has one, and its state file
  # (docs/control.md).
  class Control
    # Most processes have no control server, and do without what it needs.
    %i[Address Commands Guard Places Request Server].each do |name|
      autoload name, File.expand_path("control/#{name.downcase}", __dir__)
    end

    # @return [String, nil] where its server listens
    attr_reader :url
    # @return [String, nil] what its server asks for
    attr_reader :token

    # @param launcher [Launcher] carries the commands out
    # @param config [Config]
    # @param log [Log]
    def initialize(launcher, config, log)
      @launcher = launcher
      @config = config
      @log = log
      @state = StateFile.new(config[:state_path], permission: config[:state_permission])
    end

    # Listens, and writes the state file.
    #
    # @raise [ConfigError] if it cannot
    def open
      listen if @config[:control_url]
      @state.write(control_url: @url, token: @token)
    end

    # Ends the server and removes the file. Commands that are under way are answered.
    def close
      @server&.close
      @state.remove
    end

    # In a forked child: lets go of what belongs to the parent.
    def forget
      @server&.forget
      @server = nil
    end

    # Removes the files of a process that ends at once.
    def remove_files
      @places&.remove
      @state.remove
    end

    private

    def listen
      address = Address.parse(@config[:control_url])
      guard = Guard.new(address, @config[:control_auth_token])
      commands = Commands.new(@launcher, log: @log, data_only: @config[:control_data_only])
      @places = Places.new(address)
      @server = Server.new(@places, guard:, commands:, log: @log)
      @url = @places.address.to_s
      @token = guard.token
    end
  end
end
