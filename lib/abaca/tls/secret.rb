# frozen_string_literal: true

require "digest"
require "securerandom"

module Abaca
  module TLS
    # What the keys of session tickets are derived from. One that is drawn before the fork is the same in all workers;
    # one in a file is the same on all hosts that have the file, and after a restart.
    class Secret
      SIZE = 32
      # Bytes of a file: a device may have no end.
      MOST = 1024 * 1024
      private_constant :SIZE, :MOST

      # @param path [String, nil] nil: it is drawn
      # @param folder [String] where a relative path begins
      # @param place [String, nil] file and line of the configuration
      def initialize(path, folder: Dir.pwd, place: nil)
        @path = path && File.expand_path(path, folder)
        @named = path
        @place = place
        @drawn = SecureRandom.bytes(SIZE) unless path
      end

      # @return [String] 32 bytes: the file's as they are now
      # @raise [ConfigError] if it cannot be read, or is too short to be secret
      def bytes = @drawn || Digest::SHA256.digest(text)

      # Without the secret.
      def inspect = "#<#{self.class}#{" #{@named}" if @named}>"
      alias to_s inspect

      private

      def text
        text = File.binread(@path, MOST + 1).to_s
        refuse("it has more than #{MOST} bytes") if text.bytesize > MOST
        return text if text.bytesize >= SIZE

        refuse("it has #{text.bytesize} bytes, and needs at least #{SIZE} random ones")
      rescue SystemCallError => e
        refuse(SystemCallError.new(nil, e.errno).message)
      end

      def refuse(why) = raise(ConfigError, [@place, "tls_ticket_key_file #{@named}: #{why}"].compact.join(": "))
    end
  end
end
