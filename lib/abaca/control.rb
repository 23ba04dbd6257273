# frozen_string_literal: true

require_relative "control/puma_stats"
require_relative "control/state_file"

module Abaca
  # How others control a process that the command has started: its control server, if it has one, and its state file
  # (docs/control.md). The server runs in a process of its own, the watch.
  class Control
    # Most processes have no control server, and do without what it needs.
    %i[Acts Address Catalogue Commands Crew Enrolment Errands Guard Heir Looks Places Questions Replies Request Server
       Sessions Views Watch].each { |name| autoload name, File.expand_path("control/#{name.downcase}", __dir__) }
    autoload :EventStream, File.expand_path("control/event_stream", __dir__)
    autoload :MetricsServer, File.expand_path("control/metrics_server", __dir__)
    autoload :WatchProcess, File.expand_path("control/watch_process", __dir__)

    # @return [String, nil] where its server listens
    attr_reader :url
    # @return [String, nil] what its server asks for
    attr_reader :token
    # @return [String, nil] where metrics are, and nothing else
    attr_reader :metrics_url

    # @param launcher [Launcher] carries the commands out
    # @param config [Config]
    # @param log [Log]
    # @param slots [Launcher::Cluster::Slots, Launcher::OnlySlot] the page
    def initialize(launcher, config, log, slots:)
      @launcher = launcher
      @config = config
      @log = log
      @slots = slots
      @changes = {} # of settings, until the next start
      @state = StateFile.new(config[:state_path], permission: config[:state_permission])
    end

    # Listens. Before the app is loaded: what serves is forked from this process.
    #
    # @param heir [Heir, nil] where the program before this one has listened
    # @param port [Heir, nil] the same of `metrics_port`
    # @raise [ConfigError] if it cannot
    def begin(heir = nil, port = nil)
      @config[:control_url] ? listen(heir) : heir&.discard
      @config[:metrics_port] ? listen_for_metrics(port) : port&.discard
      return unless @places || @port

      @enrolment = Enrolment.new
      @watch = start_watch
    end

    # In a process that serves: does what the watch asks for, until it is closed.
    #
    # @param slot [Page::Slot] the process's
    # @param log [Log]
    # @param server [Server]
    # @return [Errands, nil] nil if there is no control server
    def errands(slot, log, server)
      @enrolment && Errands.new(@enrolment, slot: slot.index, log:, server:)
    end

    # In a worker: keeps what it needs for #errands.
    def become_worker
      @watch&.forget
      @places&.forget
      @port&.forget
      @enrolment&.close_inbox
      @watch = @places = @port = nil
    end

    # Writes the state file, when the process serves.
    #
    # @raise [ConfigError] if it cannot
    def open = @state.write(control_url: @url, token: @token)

    # Ends the server, while the next program of this process continues with its sockets. Commands that are under way
    # are answered.
    #
    # @return [Array(Heir, Heir)] for that program: of the control server and of `metrics_port`; nil where there is none
    def hand_over
      @watch&.close
      @state.remove
      [@places&.heir, @port&.heir]
    end

    # Ends the server and removes the files. Commands that are under way are answered. Idempotent.
    def close
      @watch&.close
      @places&.close
      @port&.close
      @state.remove
    end

    # In a forked child: lets go of what belongs to the parent.
    def forget
      become_worker
      @enrolment&.close
      @enrolment = nil
    end

    # Removes the files of a process that ends at once.
    def remove_files
      @places&.remove
      @state.remove
    end

    private

    def listen(heir)
      address = Address.parse(@config[:control_url])
      @guard = Guard.new(address, @config[:control_auth_token], { operate: @config[:control_operate_token],
                                                                  read: @config[:control_read_token] })
      @places = Places.new(address, asked: @config[:control_url], heir:)
      @url = @places.address.to_s
      @token = @guard.token
    end

    def listen_for_metrics(heir)
      url = "tcp://#{@config[:metrics_port]}"
      @port = Places.new(Address.parse(url), asked: url, heir:, what: "the metrics")
      @metrics_url = @port.address.to_s.sub("tcp", "http").concat("/metrics")
    end

    def start_watch
      acts = Acts.new(@launcher, log: @log, changes: @changes)
      process = WatchProcess.new(@places, guard: @guard, port: @port, config: @config, slots: @slots,
                                          enrolment: @enrolment, changes: @changes)
      Watch.new(@log, answer: ->(word, with) { acts.ask(word, **with) }) { |socket| process.run(socket) }
    end
  end
end
