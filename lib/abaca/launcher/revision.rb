# frozen_string_literal: true

module Abaca
  class Launcher
    # Which revision of the app this is, as deploy tools say it: Capistrano's file, or a variable.
    module Revision
      FILE = "REVISION"
      VARIABLES = %w[GIT_SHA KAMAL_VERSION HEROKU_SLUG_COMMIT].freeze
      # Characters of a commit's name.
      MOST = 40
      private_constant :FILE, :VARIABLES, :MOST

      # @param folder [String] the app's
      # @param env [Hash{String => String}, ENV]
      # @return [String, nil] nil if it is not known
      def self.of(folder = Dir.pwd, env = ENV)
        file = File.join(folder, FILE)
        text = File.read(file, MOST * 4) if File.file?(file)
        said = [text, *env.values_at(*VARIABLES)].map { |one| one.to_s.dup.force_encoding("UTF-8").scrub("").strip }
        said.find { |one| !one.empty? }&.slice(0, MOST)
      rescue SystemCallError
        nil
      end
    end
  end
end
