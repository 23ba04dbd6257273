# frozen_string_literal: true

require "digest"
require "securerandom"

module Abaca
  module TLS
    # What the keys of session tickets are derived from. One that is drawn before the fork is the same in all workers;
    # one in a file is the same on all hosts that have the file, and after a restart.
    class Secret
      SIZE = 32
      NAME = "tls_ticket_key_file"
      private_constant :SIZE, :NAME

      # @param path [String, nil] nil: it is drawn
      # @param folder [String] where a relative path begins
      # @param place [String, nil] file and line of the configuration
      def initialize(path, folder: Dir.pwd, place: nil)
        @path = path
        @folder = folder
        @place = place
        @drawn = SecureRandom.bytes(SIZE) unless path
      end

      # @return [String] 32 bytes: the file's as they are now
      # @raise [ConfigError] if it cannot be read, or is too short to be secret
      def bytes = @drawn || Digest::SHA256.digest(text)

      # Without the secret.
      def inspect = "#<#{self.class}#{" #{@path}" if @path}>"
      alias to_s inspect

      private

      def text
        text = Material.file(NAME, @path, @folder)
        return text if text.bytesize >= SIZE

        raise ConfigError, "#{NAME} #{@path}: it has #{text.bytesize} bytes, and needs at least #{SIZE} random ones"
      rescue ConfigError => e
        raise ConfigError, [@place, e.message].compact.join(": ")
      end
    end
  end
end
