# frozen_string_literal: true

require "fileutils"

module Abaca
  class Page
    # Where the pages of servers are found on a platform without /proc: files in a folder that is this user's alone,
    # each named by the process that has made the page. One that was killed leaves its file; the next server removes it.
    module Files
      # Not Dir.tmpdir, which may be another one for whoever looks.
      ROOT = "/tmp"
      private_constant :ROOT

      class << self
        # Where this process shall make its page.
        #
        # @return [String, nil] nil: pages are found in /proc, or there is no folder for them
        def own
          return if Platform.here.has?(:proc)

          FileUtils.mkdir_p(folder, mode: 0o700)
          return unless safe?

          (numbers - all.keys).each { |pid| File.delete(path(pid)) }
          path(Process.pid)
        rescue SystemCallError
          nil # somebody else has the folder's name, or the disk is full
        end

        # Removes the file of this process, if it has made one.
        #
        # @return [nil]
        def remove
          File.delete(path(Process.pid)) if !Platform.here.has?(:proc) && safe?
        rescue SystemCallError
          nil
        end

        # @return [Hash{Integer => String}] files by the processes that have made them, and run
        def all = numbers.select { |pid| runs?(pid) }.to_h { |pid| [pid, path(pid)] }

        # @param pid [Integer] a process that has made a page, or has a slot in one
        # @return [String, nil] the page's file
        def of(pid)
          files = all
          files[pid] || files.each_value.find { |file| slot_of?(file, pid) }
        end

        private

        def folder = File.join(ROOT, "abaca-#{Process.euid}")

        def path(pid) = File.join(folder, pid.to_s)

        # Nobody else can have put anything there.
        def safe?
          found = File.lstat(folder)
          found.directory? && found.owned? && found.mode.nobits?(0o077)
        rescue SystemCallError
          false
        end

        def numbers = safe? ? Dir.children(folder).grep(/\A\d+\z/).map(&:to_i) : []

        def runs?(pid)
          Process.kill(0, pid) && true
        rescue Errno::EPERM
          true # another user's
        rescue Errno::ESRCH
          false
        end

        def slot_of?(file, pid)
          page = Page.at(file)
          page.any? { |slot| slot.pid == pid }
        rescue Error, SystemCallError
          false # it is made just now, or another version's
        ensure
          page&.close
        end
      end
    end
  end
end
