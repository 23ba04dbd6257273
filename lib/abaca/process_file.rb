# frozen_string_literal: true

require_relative "atomic_file"
require_relative "errors"

module Abaca
  # A file that tells others which process serves. A subclass has `pid_in(path)`. A hot restart keeps the process, and
  # its new configuration may name another path: the earlier program's file goes when the new one is there.
  class ProcessFile
    # @return [String, nil] absolute
    attr_reader :path

    # @param path [String, nil] nil: no file
    # @param earlier [String, nil] the path of the file that an earlier program of this process has written
    def initialize(path, earlier: nil)
      @path = path && File.expand_path(path)
      @earlier = earlier
      @pid = Process.pid if earlier
    end

    # Removes the file if it is still this process's own: a call in a forked child, or after another server took over
    # the file, has no effect. The same for the earlier one, if it is there still.
    def remove
      return unless @pid == Process.pid

      [@path, @earlier].compact.each { |path| remove_own(path) }
    end

    private

    # @param text [String]
    # @param mode [Integer]
    # @param what [String] the file in words
    # @raise [ConfigError] if it cannot be written
    def put(text, mode, what)
      AtomicFile.write(@path, text, mode:)
      @pid = Process.pid
    rescue SystemCallError => e
      raise ConfigError, "cannot write the #{what}: #{e.message}"
    end

    # Two paths may lead to one file.
    def remove_earlier
      remove_own(@earlier) unless @earlier.nil? || (@path && File.identical?(@path, @earlier))
    end

    def remove_own(path) = AtomicFile.remove(path) { pid_in(path) == @pid }
  end
end
