# frozen_string_literal: true

require "json"
require_relative "address"

module Abaca
  class Control
    # What a hot restart hands over to the next program of the process: where the control server listens, and the
    # descriptors, in a variable of the environment. So no connection is refused meanwhile.
    class Heir
      # @return [String] the URL that is reached
      attr_reader :url
      # @return [Array<Integer>]
      attr_reader :fds

      # @param text [String] of the variable
      # @return [Heir, nil] nil if it is none
      def self.parse(text)
        asked, url, fds = JSON.parse(text)
        new(asked, url, fds.map { |fd| Integer(fd) })
      rescue JSON::ParserError, TypeError, NoMethodError
        nil
      end

      # @param asked [String] the setting
      # @param url [String]
      # @param fds [Array<Integer>]
      def initialize(asked, url, fds)
        @asked = asked
        @url = url
        @fds = fds
      end

      # @return [String] what .parse takes
      def to_s = JSON.generate([@asked, @url, @fds])

      # @param setting [String]
      # @param address [Address] what it means in this process
      # @return [Boolean] whether that is the same place
      def for?(setting, address) = setting == @asked && (address.auto? || address.port&.zero? || address.to_s == @url)

      # Closes it, and removes the file: the next program listens elsewhere.
      def discard
        @fds.each { |fd| IO.for_fd(fd).close }
        path = Address.parse(@url).path
        return if path.nil? || path.start_with?("@")

        File.delete(path) if File.socket?(path)
        Dir.rmdir(File.dirname(path)) if @asked == "auto"
      rescue SystemCallError, ConfigError
        nil # it has gone already
      end
    end
  end
end
