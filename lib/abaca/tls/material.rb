# frozen_string_literal: true

require "English"
require "timeout"

module Abaca
  module TLS
    # What a listener's TLS is made of, read from files: texts only, so that a process that may read keys can give it to
    # one that may not. A fault is a sentence that names the file.
    class Material
      # Seconds for a command that prints a password.
      PATIENCE = 30
      # Bytes of a file: more is no certificate, and a device may have no end.
      MOST = 16 * 1024 * 1024
      # Bytes that such a command may print.
      LONGEST = 4096
      private_constant :PATIENCE, :MOST, :LONGEST

      # @param what [String] the file's part, for messages
      # @param path [String, nil]
      # @param folder [String] where a relative path begins
      # @return [String, nil] its bytes; nil without a path
      # @raise [ConfigError] if it cannot be read, is empty or has no end
      def self.file(what, path, folder = Dir.pwd)
        return unless path

        full = File.expand_path(path, folder)
        raise ConfigError, "#{what} #{path}: it is a folder" if File.directory?(full)

        text = File.binread(full, MOST + 1)
        return text if text && text.bytesize <= MOST

        raise ConfigError, "#{what} #{path}: #{text ? "it has more than #{MOST} bytes" : 'it is empty'}"
      rescue SystemCallError => e
        raise ConfigError, "#{what} #{path}: #{SystemCallError.new(nil, e.errno).message}"
      end

      # @return [Hash{Symbol => Object}] for TLSContext.new
      attr_reader :options

      # @param settings [Config::TLS]
      # @param certificates [Array<Config::TLS::Certificate>] in place of the settings' own
      # @param folder [String] where relative paths begin
      # @raise [ConfigError]
      def initialize(settings, certificates: settings.certificates, folder: Dir.pwd)
        @folder = folder
        @options = {
          identities: certificates.map { |certificate| identity(certificate) },
          ca: settings.ca_pem || read("ca", settings.ca), crl: read("crl", settings.crl),
          verify: settings.verify_mode, verification_flags: settings.verification_flags,
          ciphers: settings.ciphers, ciphersuites: settings.ciphersuites, min_version: settings.min_version,
          http2: settings.http2? && !HTTP2_LIBRARY.nil?
        }
      end

      # Its texts have keys.
      def inspect = "#<#{self.class}>"
      alias to_s inspect

      private

      # As TLSContext.new wants it: certificates, key, password and name.
      def identity(certificate)
        chain = certificate.cert_pem || read("certificate", certificate.cert)
        key = certificate.key_pem || read("key", certificate.key)
        [chain, key, password(certificate.key_password_command), certificate.label]
      rescue ConfigError => e
        raise ConfigError, [certificate.place, e.message].compact.join(": ")
      end

      def read(what, path) = self.class.file(what, path, @folder)

      def password(command)
        return unless command

        text = output(command)
        status = $CHILD_STATUS # nil if other code has waited for any child
        return text.chomp if (status.nil? || status.success?) && !text.include?("\0")

        how = text.include?("\0") ? "prints no text" : "has failed (#{status.to_s[/exit \d+|SIG\w+.*/]})"
        raise ConfigError, "key_password_command #{command.inspect} #{how}"
      rescue SystemCallError => e
        raise ConfigError, "key_password_command #{command.inspect}: #{SystemCallError.new(nil, e.errno).message}"
      end

      def output(command)
        IO.popen(command, err: File::NULL) do |pipe|
          text = Timeout.timeout(PATIENCE) { pipe.read(LONGEST + 1) }.to_s
          next text if text.bytesize <= LONGEST

          stop(pipe, "key_password_command #{command.inspect} prints more than #{LONGEST} bytes")
        rescue Timeout::Error
          stop(pipe, "key_password_command #{command.inspect} takes more than #{PATIENCE} s")
        end
      end

      def stop(pipe, why)
        Process.kill(:KILL, pipe.pid)
        raise ConfigError, why
      end
    end
  end
end
