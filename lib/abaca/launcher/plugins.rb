# frozen_string_literal: true

module Abaca
  class Launcher
    # Runs the plugins of a configuration: starts them, tells them of the server's life, and ends with it. What a plugin
    # raises is logged, with what will not happen, and stops neither the server nor the others. Gems that are no plugins
    # see the same launcher.
    class Plugins
      autoload :Events, File.expand_path("plugins/events", __dir__)
      autoload :ForPlugins, File.expand_path("plugins/for_plugins", __dir__)
      autoload :LogWriter, File.expand_path("plugins/log_writer", __dir__)
      autoload :Running, File.expand_path("plugins/running", __dir__)
      autoload :SolidQueue, File.expand_path("plugins/solid_queue", __dir__)

      # What a plugin runs: the app has to have it loaded.
      NEEDS = { "solid_queue" => "SolidQueue" }.freeze
      # Plugins that need more than others.
      KINDS = { "solid_queue" => :SolidQueue }.freeze
      # Gems that look for Puma's own objects, by the constant that shows them.
      BLIND = { "PumaWorkerKiller" => "puma_worker_killer finds no workers, and replaces none: set worker_max_memory " \
                                      "(docs/cluster.md)" }.freeze
      private_constant :NEEDS, :KINDS, :BLIND

      # @param launcher [Launcher]
      # @param config [Config]
      # @param log [Log]
      def initialize(launcher, config, log)
        PumaNames.define
        @config = config
        @log = log
        @plugins = config.plugins.instances.slice(*config[:plugins])
        @running = []
        @own = {}
        @events = Events.make(log)
        @launcher = ForPlugins.new(launcher, log:, events: @events, options: PumaOptions.of(config, own: @own))
      end

      # Shows gems the launcher, by `Puma.cli_config` and `Puma.stats_object=`.
      def present
        PumaConfiguration.current = @launcher.config
        ::Puma.stats_object = PumaNames::Runner.of(@launcher, clustered: @config[:workers].positive?)
      end

      # Starts them; one that cannot run is a line in the log.
      #
      # @param control [Control] that is open
      # @param listeners [Listeners] that are open
      def start(control, listeners)
        @own.update({ control_url: control.url, control_auth_token: control.token }.compact)
        in_child = -> { [control.forget, listeners.let_go] }
        @running = @plugins.filter_map { |name, plugin| start_one(name, plugin, in_child) }
      end

      # The server serves, for the first time or with new code.
      def booted
        warn_of_blind unless @booted
        @booted = true
        @events.fire(:after_booted)
        @running.each(&:run_in_background)
      end

      # Workers are about to be replaced, or the program is.
      def before_restart
        pause
        @events.fire(:before_restart)
        @running.each(&:restarted)
      end

      # The server is about to stop. A trap handler may call it.
      def pause = @running.each(&:pause)

      # It has stopped.
      def stopped = @events.fire(:after_stopped)

      private

      def start_one(name, plugin, in_child)
        trouble = missing(name) and return warn_of(name, trouble)
        running = Plugins.const_get(KINDS.fetch(name, :Running)).new(name, plugin, @log, in_child:)
        Events.of(name) { plugin.start(@launcher) } if plugin.respond_to?(:start)
        running
      rescue StandardError, ScriptError => e
        warn_of(name, e)
      end

      def missing(name)
        needed = NEEDS[name]
        return if needed.nil? || Object.const_defined?(needed)

        reason = ", which has no app without preload_app!" if @config[:workers].positive? && !@config[:preload_app]
        "#{needed} is not loaded in this process#{reason}"
      end

      def warn_of_blind = BLIND.each { |name, text| @log.warn(text) if Object.const_defined?(name) }

      def warn_of(name, trouble)
        @log.error(Config::Plugins.trouble(name, trouble))
        nil
      end
    end
  end
end
