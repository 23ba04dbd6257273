# frozen_string_literal: true

require_relative "control/puma_stats"
require_relative "control/state_file"

module Abaca
  # How others control a process that the command has started: its control server, if it has one, and its state file
  # (docs/control.md). The server runs in a process of its own, the watch.
  class Control
    # Where browsers are let in, if the control server has no port.
    BOARD = "tcp://127.0.0.1:0"
    # Seconds for clients of the control server that have not asked yet, when the next program takes its places.
    SILENT = 1
    private_constant :BOARD, :SILENT

    # Most processes have no control server, and do without what it needs.
    %i[Acts Address Catalogue Client Commands Crew Enrolment Errands Front Guard Heir Looks Pages Places Profiles
       Questions Replies Request Server Sessions Texts Views Watch].each do |name|
      autoload name,
               File.expand_path("control/#{name.downcase}", __dir__)
    end
    autoload :EventStream, File.expand_path("control/event_stream", __dir__)
    autoload :MetricsServer, File.expand_path("control/metrics_server", __dir__)
    autoload :WatchProcess, File.expand_path("control/watch_process", __dir__)

    # Where this process, or the one that has forked it, is controlled; what the app may do there is up to the app.
    Door = Struct.new(:address, :token) do
      # @param target [String] path and query of an act
      # @return [Client::Reply]
      # @raise [Client::Failed]
      def post(target) = Client.new(address).call("POST", target, token:)
    end

    class << self
      # @return [Door, nil] of the command's process; nil: it has no control server
      attr_accessor :door
    end

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
    # @param earlier [String, nil] the path of the state file that an earlier program of this process has written
    def initialize(launcher, config, log, slots:, earlier: nil)
      @launcher = launcher
      @config = config
      @log = log
      @slots = slots
      @changes = {} # of settings, until the next start
      @fronts = []
      @state = StateFile.new(config[:state_path], permission: config[:state_permission], earlier:)
    end

    # Listens. Before the app is loaded: what serves is forked from this process.
    #
    # @param heirs [Array<Heir, nil>] as #hand_over of the program before this one has returned them
    # @raise [ConfigError] if it cannot
    def begin(heirs = [])
      heir, port, board = heirs
      @config[:control_url] ? listen(heir) : heir&.discard
      @config[:metrics_port] ? listen_for_metrics(port) : port&.discard
      @config.dashboard? ? find_board(board) : board&.discard
      return if @fronts.empty? && @port.nil?

      @enrolment = Enrolment.new
      @watch = start_watch
      front = @fronts.first
      Control.door = front && Door.new(front.places.address.to_s, front.guard.token)
    end

    # @return [String, nil] a link that lets a browser see the dashboard, once; nil if there is none
    attr_reader :dashboard

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
      @fronts.each { |front| front.places.forget }
      @port&.forget
      @enrolment&.close_inbox
      @watch = @board = @port = nil
      @fronts = []
    end

    # Writes the state file, when the process serves.
    #
    # @raise [ConfigError] if it cannot
    def open = @state.write(control_url: @url, token: @token)

    # @return [String, nil] the path of the state file
    def state_path = @state.path

    # Ends the server, while the next program of this process continues with its sockets: who connects from now on waits
    # for that. Clients that are connected are answered what they ask within a moment.
    #
    # @return [Array<Heir, nil>] for that program: of the control server, of `metrics_port` and of the dashboard's port;
    #   nil where there is none
    def hand_over
      @watch&.close(silent: SILENT)
      [@own&.places&.heir, @port&.heir, (@board.places.heir if @board && @board != @own)]
    end

    # Ends the server and removes the files. Commands that are under way are answered. Idempotent.
    def close
      @watch&.close
      @fronts.each { |front| front.places.close }
      @port&.close
      @state.remove
      Control.door = nil
    end

    # In a forked child: lets go of what belongs to the parent.
    def forget
      become_worker
      @enrolment&.close
      @enrolment = nil
    end

    # Removes the files of a process that ends at once.
    def remove_files
      @fronts.each { |front| front.places.remove }
      @state.remove
    end

    private

    def listen(heir)
      address = Address.parse(@config[:control_url])
      guard = Guard.new(address, @config[:control_auth_token], { operate: @config[:control_operate_token],
                                                                 read: @config[:control_read_token] })
      @fronts << @own = Front.new(Places.new(address, asked: @config[:control_url], heir:), guard)
      @url = @own.places.address.to_s
      @token = guard.token
    end

    def listen_for_metrics(heir)
      url = "tcp://#{@config[:metrics_port]}"
      @port = Places.new(Address.parse(url), asked: url, heir:, what: "the metrics")
      @metrics_url = @port.address.to_s.sub("tcp", "http").concat("/metrics")
    end

    # A browser needs a port. On one of its own, there is no token that anybody knows.
    def find_board(heir)
      if @own&.url
        heir&.discard
        return @board = @own
      end

      address = Address.parse(BOARD)
      guard = Guard.new(address, nil, {}, sessions: @own&.sessions)
      @fronts << @board = Front.new(Places.new(address, asked: BOARD, heir:, what: "the dashboard"), guard)
    rescue ConfigError => e
      @log.warn("no dashboard: #{e.message}")
    end

    # Each process of the watch has a link of its own, made before the fork: that of the one before may have been used.
    def renew_link
      @board.sessions.forget_links
      again = @dashboard
      @dashboard = @board.link(:operate, Sessions::FIRST_LINK)
      @log.info("* Dashboard: #{@dashboard}") if again
    end

    def start_watch
      acts = Acts.new(@launcher, log: @log, changes: @changes)
      process = WatchProcess.new(@fronts, port: @port, config: @config, slots: @slots, enrolment: @enrolment,
                                          changes: @changes, board: @board || @own)
      Watch.new(@log, answer: ->(word, with) { acts.ask(word, **with) },
                      before: -> { renew_link if @board }) { |socket| process.run(socket) }
    end
  end
end
