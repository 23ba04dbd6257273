# frozen_string_literal: true

require_relative "platform"
require_relative "page/slot"

module Abaca
  # Memory that a master shares with its workers: a slot for each, which says what the worker does and counts. It is
  # made before the first fork, and every process reads it without a lock, also while others hang or are no more
  # (docs/page.md).
  #
  #   page = Abaca::Page.create(slots: 4)
  #   pid = fork do
  #     slot = page[0].claim
  #     server = Abaca::Server.new(app, slot: slot)
  #     ...
  #   end
  #   page[0].beat_age     # seconds since the worker last ran
  #   page.sums[:requests] # of all workers, and of all that have ended
  #   page.requests        # what is in flight, in all workers
  class Page
    autoload :Files, File.expand_path("page/files", __dir__)
    autoload :Sums, File.expand_path("page/sums", __dir__)
    autoload :Times, File.expand_path("page/times", __dir__)

    include Enumerable
    include Sums

    # The most slots of a page.
    MOST = 4096
    # What the head begins with, and where it says when the page was made (ext/abaca/page/layout.h).
    MAGIC = "abacapag"
    MADE_AT = 56
    private_constant :MAGIC, :MADE_AT
    # The most rows of a slot.
    MOST_ROWS = 65_536

    class << self
      # What is not used costs address space only.
      #
      # @param slots [Integer] 1 to MOST
      # @param rows [Integer] of each slot: so many requests in the app can be seen
      # @param queued [Integer] ... and so many that wait to be taken; MOST_ROWS together, the rest is cut
      # @param path [String, nil] of a file for it, where others find it: Files.own, until Files.remove
      # @return [Page] of empty slots
      # @raise [ArgumentError] for other numbers
      # @raise [SystemCallError] if the kernel has no memory or no descriptor for it
      def create(slots:, rows: 1024, queued: 1024, path: nil)
        check("slots", slots, 1..MOST)
        check("rows", rows, 0..)
        check("queued", queued, 0..)
        map(slots, *[rows, queued].map { |count| [count, MOST_ROWS].min }, path)
      end

      # The page of another server, to look at its workers from outside: without their help, also while they hang.
      #
      # @param pid [Integer] the master's process, or a worker's, of the same user; without /proc, of a server of the
      #   command, or this process
      # @return [Page] that can only be read; it stays readable when the server has ended
      # @raise [Error] if the process has no page, or one of another layout
      # @raise [SystemCallError] if there is no such process, or it is another user's
      def of(pid)
        return at(place(pid)) if Platform.here.has?(:proc) || pid != Process.pid

        read(descriptor || raise(Error, no_page(pid)))
      end

      # @param place [String] a page's file, as Page.place names it
      # @return [Page] as Page.of
      # @raise [Error, SystemCallError] as Page.of
      def at(place) = File.open(place, "rb") { |file| read(file.fileno) }

      # @param pid [Integer] as for Page.of
      # @return [String] the file that is its page, of several the last that was made; while it stays the same file, so
      #   does the page
      # @raise [Error, SystemCallError] as Page.of
      def place(pid)
        pid = Integer(pid)
        unless Platform.here.has?(:proc)
          Process.kill(0, pid)
          return Files.of(pid) || raise(Error, no_page(pid))
        end

        folder = "/proc/#{pid}/fd"
        found = Dir.children(folder).filter_map { |name| "#{folder}/#{name}".then { |file| file if page?(file) } }
        raise Error, no_page(pid) if found.empty?

        found.one? ? found.first : found.max_by { |file| made_at(file) }
      end

      # @return [Array<Integer>] processes of this user that have a page, of each server the first one
      def processes
        return Files.all.keys unless Platform.here.has?(:proc)

        found = Dir.children("/proc").grep(/\A\d+\z/).map(&:to_i).select { |pid| page_of?(pid) }
        found.reject { |pid| found.include?(parent(pid)) }
      end

      private

      def check(name, number, range)
        return if number.is_a?(Integer) && range.cover?(number)

        raise ArgumentError, "#{name}: #{range.begin} to #{range.end || "any number"}, not #{number.inspect}"
      end

      def no_page(pid) = "process #{pid} has no page: it is no server of Abaca's, or one without workers"

      def page_of?(pid)
        place(pid) && true
      rescue Error, SystemCallError
        false # it has none, or is another user's
      end

      def parent(pid)
        File.read("/proc/#{pid}/stat").rpartition(") ").last.split[1].to_i
      rescue SystemCallError
        0 # it has ended meanwhile
      end

      # "/memfd:abaca-page (deleted)", or a file of such a name.
      def page?(descriptor)
        File.basename(File.readlink(descriptor)).match?(/\A(memfd:)?abaca-page/)
      rescue Errno::ENOENT
        false # closed meanwhile
      end

      # Of this process's descriptors the one that is its page, of several the last that was made.
      def descriptor = Platform.here.descriptors.to_h { |fd| [fd, made_in(fd)] }.compact.max_by(&:last)&.first

      # By the monotonic clock; nil: it is no page's.
      def made_in(descriptor)
        io = IO.for_fd(descriptor, autoclose: false)
        head = io.pread(MADE_AT + 8, 0) if io.stat.file? && io.stat.size > MADE_AT + 8
        head.unpack1("@#{MADE_AT}Q") if head&.start_with?(MAGIC)
      rescue SystemCallError, IOError, ArgumentError
        nil # closed, not to be read, or Ruby's own
      end

      # By the monotonic clock; -1: it is closed meanwhile, or empty.
      def made_at(file)
        File.binread(file, 8, MADE_AT)&.unpack1("Q") || -1
      rescue SystemCallError
        -1
      end

      private :map, :read
    end

    # @!method slots
    #   @return [Array<Slot>]
    #   @raise [IOError] if the page is closed, as all other methods

    # @!method sums
    #   @return [Hash{Symbol => Object}] the figures of all slots: counters of every process that has had one, and what
    #     there is now. Counters never fall, however a worker ends.

    # @!method fileno
    #   @return [Integer] the descriptor of its memory, for the next program in this process
    #   @raise [Error] if it is another server's

    # @!method carry(descriptor)
    #   Copies history, events and kept requests of another page into this one, of which no slot has been claimed yet.
    #   Counters begin at 0.
    #   @param descriptor [Integer] of that page
    #   @return [nil]
    #   @raise [Error] if it is no page, or one of another layout
    #   @raise [SystemCallError] if it cannot be read

    # @!method close
    #   Ends this process's use of the page; a server that runs in one of its slots keeps it until it has ended. Other
    #   processes are not concerned. Idempotent.
    #   @return [nil]

    # @!method closed?
    #   @return [Boolean]

    # @return [Integer] how many slots there are
    def size = slots.size

    # @param index [Integer] from 0
    # @return [Slot]
    # @raise [IndexError] if there is no such slot
    def [](index)
      raise IndexError, "no slot #{index}: there are #{size}" if index.negative?

      slots.fetch(index) { raise IndexError, "no slot #{index}: there are #{size}" }
    end

    # The requests in flight as JSON, the oldest first: what #requests says of them, without an object for each.
    #
    # @param most [Integer] no more than so many
    # @param numbers [Integer] how many numbers workers have: a slot's is what remains when it is divided by them
    # @param brief [Boolean] as the screen of requests has them (Sight::Screens::Requests); else as the control server
    #   has them (docs/control.md)
    # @param waits [Boolean] with the last 32 waits of each; not if it is brief
    # @return [Line::Written] an Array
    # @raise [IOError] if the page is closed
    def request_lines(most:, numbers:, brief: false, waits: false) = write_requests(most, numbers, brief, waits)

    # Yields each slot.
    def each(&) = slots.each(&)

    # A worker's part of the page. What it says may be of different moments, but each value is one that was there.
    class Slot
      # Takes the slot for this process: state :booting, this pid and time, no heartbeat yet. What earlier processes
      # have counted stays in Page#sums. A process that was forked by the one that has the slot has not claimed it.
      #
      # @param phase [Integer] the generation of the code that the worker runs
      # @return [Slot] self
      # @raise [Error] if another process has the slot and is alive; a child that has ended is alive until its parent
      #   has reaped it or says :ended
      def claim(phase: 0) = take(phase)

      # @!method mine?
      #   @return [Boolean] whether this process has claimed it

      # @!method index
      #   @return [Integer]

      # @!method state
      #   @return [Symbol] :empty, :booting, :serving, :draining or :ended

      # @!method state=(state)
      #   For the process that has claimed the slot and, when that has ended, the one that created the page.
      #   @param state [Symbol] :empty forgets the process
      #   @raise [ArgumentError] for another word
      #   @raise [Error] in any other process

      # @!method pid
      #   @return [Integer, nil] of the process that has, or had, the slot; nil in an empty one

      # @!method claims
      #   @return [Integer] how many processes have claimed it so far

      # @!method phase
      #   @return [Integer, nil] what it has claimed

      # @!method started_at
      #   @return [Time, nil] when it has claimed the slot

      # @!method beat
      #   A heartbeat by hand, while the app boots. A server beats by itself each second: if Ruby gives the thread that
      #   does so its turn, and the engine has turned meanwhile.
      #   @return [nil]
      #   @raise [Error] in a process that has not claimed the slot

      # @!method limit(places, queue)
      #   Says how many requests there is room for; a server does so.
      #   @param places [Integer] in the app at once
      #   @param queue [Integer, nil] that wait to be taken; nil: any number
      #   @return [nil]
      #   @raise [Error] in a process that has not claimed the slot

      # @!method beat_age
      #   @return [Float, nil] seconds since the last heartbeat; nil before the first one

      # @!method turn_age
      #   @return [Float, nil] seconds since the server's engine turned last: for what has come over the network, on
      #     fibers also while Ruby hangs, and for each heartbeat; nil before the first time

      # @!method figures
      #   @return [Hash{Symbol => Object}] what this process has counted, and what there is now: the keys of
      #     Server#stats that docs/page.md names
    end

    # Looks as JSON, on one line, whatever bytes clients have sent.
    module Line
      # A text that is JSON already, and stands as it is in what it is a part of.
      class Written < String
        # @return [String]
        def to_json(*) = to_s
      end

      # @!method self.json(value, stand_in, rounds)
      #   Natively: a look has thousands of values.
      #
      #   @param value [Object] of Hashes, Arrays, numbers, texts and Times; of anything else, its text
      #   @param stand_in [String] for bytes that are no UTF-8; up to 6 bytes of UTF-8
      #   @param rounds [Boolean] whether numbers have microseconds at most
      #   @return [String] UTF-8. Numbers that JSON does not have are null.
      #   @raise [ArgumentError] for Hashes and Arrays in a hundred others
    end

    # What all slots of a page have counted together, by routes and series of times. A route or a series that it has
    # told apart once is told apart from then on, so what it says of one never falls, however workers end.
    class Tally
      # @!method self.new(page, routes)
      #   @param page [Page]
      #   @param routes [Integer] how many are told apart, 64 at most; the first ones that it sees
      #   @return [Tally]

      # @!method self.buckets(text, start, ends, counts)
      #   Adds a line for each count, natively: there are thousands.
      #
      #   @param text [String] is added to
      #   @param start [String] of each line
      #   @param ends [Array<String>] what follows
      #   @param counts [Array<Integer>]
      #   @return [String] the text

      # @!method take
      #   Counts anew.
      #
      #   @return [Hash{Symbol => Object}] `totals`, of all requests that have ended; `routes`, an Array of Hashes, and
      #     `routeless`, seconds by state of requests without one; `series`, an Array of: kind, method, route, status,
      #     sum in seconds, and counts up to each of BOUNDS and of all
      #   @raise [IOError] if the page is closed

      # @!parse
      #   # Seconds: the bounds of a series's counts.
      #   BOUNDS = [0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0].freeze
    end
  end
end
