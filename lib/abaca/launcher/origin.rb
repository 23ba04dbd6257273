# frozen_string_literal: true

require "rbconfig"
require_relative "signals"

module Abaca
  class Launcher
    # How this process was started: the command, the environment and the folder that a restart uses again. All are
    # those of the start, so that a changed Gemfile, a changed `.env` and a moved `current` link are seen. To be created
    # before the process has a title of its own, which overwrites what the kernel remembers.
    class Origin
      # What the kernel remembers, where it tells.
      COMMAND = "proc/self/cmdline"
      ENVIRONMENT = "proc/self/environ"
      # What `bundle exec` leaves in place of the value of a variable that was not set.
      UNSET = "BUNDLER_ENVIRONMENT_PRESERVER_INTENTIONALLY_NIL"
      private_constant :COMMAND, :ENVIRONMENT, :UNSET

      # @return [Array<String>] the program and its arguments
      attr_reader :words
      # @return [Hash{String => String}]
      attr_reader :environment
      # @return [String] with its symbolic links, if the shell has told them
      attr_reader :directory

      # @param command [String, nil] the setting `restart_command`
      # @param argv [Array<String>] arguments that follow on it
      # @param root [String] the folder that has `proc`
      def initialize(command: nil, argv: [], root: Platform.here.root)
        @root = root
        given = strings(COMMAND)
        @intact = given.drop(1).any? { |word| !word.empty? }
        @environment = Signals.clean(without_bundle(original_environment)).freeze
        @words = (PrunedBundle.words_of_start || (@intact ? given : renewed)).freeze
        @words = [*split(command), *argv].freeze if command
        @directory = remembered_directory
      end

      private

      def split(command)
        require "shellwords" # few give a command
        Shellwords.split(command)
      end

      def strings(path)
        File.binread(File.join(@root, path)).split("\0", -1)[..-2] || []
      rescue SystemCallError
        []
      end

      # `bundle exec` runs Ruby programs in its own process, and gives that a title.
      def renewed
        bundle = ENV.fetch("BUNDLE_BIN_PATH", nil)
        return [RbConfig.ruby, $PROGRAM_NAME, *ARGV] unless bundle

        [RbConfig.ruby, bundle, "exec", program, *ARGV]
      end

      # By its name, if it is a gem's: the new Gemfile may have another version of that.
      def program
        path = File.expand_path($PROGRAM_NAME)
        folders = [*Gem.path, Gem.bindir].map { |folder| File.join(folder, "") }
        path.start_with?(*folders) ? File.basename(path) : path
      end

      def original_environment
        pairs = @intact ? strings(ENVIRONMENT).filter_map { |text| text.split("=", 2) if text.include?("=") } : []
        return pairs.to_h { |name, value| [name.force_encoding(Encoding.default_external), value] } if pairs.any?

        defined?(::Bundler) ? ::Bundler.original_env : ENV.to_h
      end

      # If the process was started by `bundle exec`, Bundler looks for the Gemfile anew.
      def without_bundle(environment)
        return PrunedBundle.environment_of_start(environment) if PrunedBundle.left?

        given = environment["BUNDLER_ORIG_BUNDLE_GEMFILE"] or return environment

        given == UNSET ? environment.except("BUNDLE_GEMFILE") : environment.merge("BUNDLE_GEMFILE" => given)
      end

      def remembered_directory
        told = @environment["PWD"]
        told && File.identical?(told, ".") ? told : Dir.pwd
      end
    end
  end
end
