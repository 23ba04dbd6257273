# frozen_string_literal: true

module Abaca
  class Launcher
    # The places of the configuration that the process listens at. They are opened once, before anything serves: by a
    # server of this process, or by those of the workers that it forks.
    class Listeners
      # What is for the socket itself; the other options of a Bind are terms for its connections.
      OPENING = %i[backlog defer_accept reuse_port umask mode].freeze
      private_constant :OPENING

      # @return [Array<Inherited::Place>] the same for the next program
      attr_reader :places
      # @return [Array<String>] how it came to each, for the log
      attr_reader :lines

      # @param config [Config]
      # @param log [Log]
      # @param succession [Succession] has what listens already
      # @param keeper [TLS::Keeper, nil] has the certificates
      def initialize(config, log, succession, keeper = nil)
        @keeper = keeper
        @config = config
        @log = log
        @succession = succession
        @inherited = succession.inherited
        @opened = [] # of [Listener, Hash of terms, Hash of options]
        @places = []
        @lines = []
      end

      # @return [self]
      # @raise [ConfigError] if one of the places cannot be listened at; then none is
      def open
        found = binds.map { |bind| [bind, found(bind)] }
        # Before others are opened, which may be the same with another address.
        @inherited.close.each { |place| note_unused(place) }
        found.each { |bind, place| add(bind, place) }
        self
      rescue ConfigError
        close
        raise
      end

      # @return [Array<String>] where it listens
      def urls
        @urls ||= @opened.map { |listener, terms| url(listener, scheme(terms)) }
      end

      # Gives them to a server of this process, which closes them.
      #
      # @param server [Server]
      # @raise [ConfigError] if the terms of one have no meaning
      def add_to(server)
        urls # as long as they can be asked
        @opened.each { |listener, terms| server.add_listener(listener, **terms, **tls(terms)) }
      end

      # @return [Listeners] the same places, open once more, for another server
      # @raise [SystemCallError]
      def copy
        twin = dup
        twin.open_as(@opened.map do |listener, terms, options|
          fd = IO.for_fd(listener.fileno, autoclose: false).dup.tap { |io| io.autoclose = false }.fileno
          [Listener.inherit(fd, false, **options), terms, options]
        end)
        twin
      end

      # Another process continues with those that no server of this process has.
      def keep = @opened.map(&:first).each(&:keep)

      # In a forked child that outlives its parent, or may: the sockets are not open here any more. Their numbers stay
      # taken, since objects of the parent may close them.
      def let_go
        @places.flat_map(&:fds).each { |fd| IO.for_fd(fd, autoclose: false).reopen(File::NULL) }
      end

      # Closes those that no server of this process has, and removes the files of unix sockets that this process made.
      # Idempotent.
      def close = @opened.map(&:first).each(&:close)

      protected

      # @param opened [Array<Array>] as they were, or copies
      def open_as(opened)
        @opened = opened
        @places = @lines = @urls = nil
      end

      private

      # The activated ones that are bound to by the configuration come once.
      def binds
        activated = @inherited.activated.map { |place| Activated.bind(place) }
        return @config.binds if activated.empty? || !@config[:bind_to_activated_sockets]
        return only(activated) if @config[:bind_to_activated_sockets] == :only

        @config[:binds].empty? ? activated : (@config.binds + activated).uniq(&:socket_url)
      end

      # With what the configuration says of TLS.
      def only(activated)
        secure = @config.binds.select(&:tls)
        activated.map { |bind| secure.find { |one| one.socket_url == bind.socket_url } || bind }
      end

      # An activated socket may get TLS here; one of an earlier program has had it.
      def found(bind)
        place = @inherited.take(bind.to_s)
        return place if place || bind.tls.nil?

        @inherited.take(bind.socket_url) if @inherited.activated.any? { |one| one.url == bind.socket_url }
      end

      # The context of the present certificates, in place of what the configuration says.
      def tls(terms) = terms[:tls] ? { tls: @keeper.context_of(terms[:tls]) } : {}

      def note_unused(place)
        return @log.info("* Closing #{place.url}, which is not wanted any more") unless place.activated?

        @log.warn("the activated socket #{place.url} is not used: bind to its URL, or set bind_to_activated_sockets")
      end

      def add(bind, place)
        listeners = place ? heirs(place, bind) : listeners(bind)
        @opened.concat(listeners.map { |listener| [listener, bind.options.except(*OPENING), again(bind)] })
        @places << Inherited::Place.new(bind.to_s, listeners.map(&:fileno), place ? place.mark : mark(bind))
        @lines.concat(listeners.map { |listener| line(listener, place, bind) })
      rescue SystemCallError => e
        raise ConfigError, "cannot listen on #{bind}: #{reason(e)}"
      end

      def url(listener, scheme) = Listener.url(listener.place, scheme)

      def scheme(terms) = terms[:tls] ? "https" : @config[:rack_url_scheme]

      def line(listener, place, bind)
        return "* Listening on #{url(listener, scheme(bind.options))}" unless place

        how = @inherited.before?(place) ? "Inherited" : "Activated"
        "* #{how} #{url(listener, bind.tls ? 'ssl' : 'tcp')}#{" (#{place.name})" if place.name}"
      end

      # A stand-in that ends before it serves must leave the file, which is still in use.
      def heirs(place, bind)
        owns = place.own? && !@succession.stand_in?
        options = again(bind).merge(bind.options.slice(*OPENING))
        place.fds.map { |fd| Listener.inherit(fd, owns, **options) }
      end

      # Options of a socket that is open already.
      def again(bind) = { dead_after: dead_after(bind), **bind.options.slice(:backlog, :defer_accept) }

      def mark(bind) = bind.unix? && !bind.path.start_with?("@") ? "own" : "-"

      def listeners(bind)
        options = bind.options.slice(*OPENING)
        if bind.unix? then [Listener.unix(bind.path, **options)]
        elsif bind.fd then [Listener.adopt(bind.fd)]
        else Listener.of_host(bind.host, bind.port, log: @log, dead_after: dead_after(bind), **options)
        end
      end

      def dead_after(bind) = Listener.dead_after(@config.limits.merge(bind.options.fetch(:limits, {})))

      def reason(error)
        case error
        when Errno::EADDRINUSE then "the address is in use by another process"
        when Errno::EACCES then "permission denied"
        else error.message
        end
      end
    end
  end
end
