# frozen_string_literal: true

module Abaca
  # What a Rails app must know about the server while it boots: its mode. The command loads the app itself, so Abaca
  # is loaded before Rails; the Railtie is added as soon as Rails can accept it.
  module RailsBoot
    @mode = nil

    class << self
      # Runs a block that loads an app, perhaps a Rails app.
      #
      # @param mode [Symbol] how requests will be run: :fiber or :thread
      # @return [Object] what the block returns
      def with_mode(mode, &)
        @mode = mode
        return watched(&) unless defined?(::Rails::Railtie)

        load_railtie
        yield
      end

      # @return [Symbol, nil] the mode of the server that this process is about to start; nil: apparently it starts
      #   none
      def mode = @mode || (RackHandler.mode if handler_loaded?)

      private

      # A class that inherits from Rails::Railtie must be created after that is defined and before the application is
      # initialized. Nothing else tells when that is.
      def watched(&)
        trace = TracePoint.new(:end) do |point|
          next unless defined?(::Rails::Railtie) && ::Rails::Railtie.equal?(point.self)

          trace.disable
          load_railtie
        end
        trace.enable
        yield
      ensure
        trace&.disable
      end

      def handler_loaded? = Abaca.const_defined?(:RackHandler, false) && !Abaca.autoload?(:RackHandler)

      def load_railtie = require_relative("railtie")
    end
  end
end
