# frozen_string_literal: true

module Abaca
  # Files of a process at a path that the configuration names, in a folder where others may write, too.
  module AtomicFile
    REPLACED = %w[file link directory].freeze
    private_constant :REPLACED

    class << self
      # Writes the file in one piece: a reader finds what was there before, or all of the text. A symbolic link at the
      # path is replaced, not followed. A device or a pipe, such as /dev/null, is written to.
      #
      # @param path [String] absolute
      # @param text [String]
      # @param mode [Integer] of the file, whatever the umask is
      # @raise [SystemCallError]
      def write(path, text, mode:)
        return File.write(path, text, mode: File::WRONLY | File::NOFOLLOW) unless replaces?(path)

        new = "#{path}.#{Process.pid}"
        delete(new)
        create(new, text, mode)
        File.rename(new, path)
      rescue SystemCallError
        delete(new) if new
        raise
      end

      # @param path [String]
      # @return [Boolean] whether #write puts a new file there, for which it needs the folder
      # @raise [SystemCallError] if there is no such folder
      def replaces?(path)
        REPLACED.include?(File.lstat(path).ftype)
      rescue Errno::ENOENT
        true
      end

      # Removes the file, if it is one.
      #
      # @param path [String]
      # @yieldreturn [Boolean] whether it is still this process's own, by what it says
      def remove(path)
        File.delete(path) if File.lstat(path).file? && yield
      rescue SystemCallError
        nil
      end

      private

      # A link that somebody has put there meanwhile is an error.
      def create(path, text, mode)
        File.open(path, File::WRONLY | File::CREAT | File::EXCL | File::NOFOLLOW, mode) do |file|
          file.chmod(mode)
          file.write(text)
        end
      end

      def delete(path)
        File.delete(path)
      rescue SystemCallError
        nil
      end
    end
  end
end
