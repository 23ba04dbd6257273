# frozen_string_literal: true

require_relative "native"

module Abaca
  # What the native part was built for, and what of Linux it has to do without (docs/platforms.md). Whatever uses such a
  # part asks here, and the log says at boot what there is not.
  #
  #   platform = Abaca::Platform.here
  #   platform.poller          # => "kqueue"
  #   platform.has?(:proc)     # => false
  #   platform.lack(:proc)     # => "this platform has no /proc (docs/platforms.md)"
  class Platform
    # What a build may have to do without, as the log calls it: what somebody may miss.
    PARTS = {
      sendfile: "sendfile",
      page_cache: "a view of the page cache",
      memfd: "memfd",
      give_back: "memory that is given back",
      pidfd: "pidfds",
      unsent: "counts of unsent bytes",
      unsent_limit: "limits of unsent bytes",
      peer_names: "names of unix peers",
      held_back: "lists of connections held back",
      defer_accept: "TCP_DEFER_ACCEPT",
      user_timeout: "TCP_USER_TIMEOUT",
      abstract_sockets: "abstract sockets",
      subreaper: "subreapers",
      held_signals: "signals held across an exec",
      proc: "/proc",
      cgroups: "cgroups"
    }.freeze
    # Descriptors that are tried where no folder lists them: processes that may have more have seldom that many.
    MOST_DESCRIPTORS = 16_384
    private_constant :MOST_DESCRIPTORS

    class << self
      # @return [Platform] that of this process
      def here = @here ||= new(BUILD)
    end

    # @param build [Hash{Symbol => Object}] `poller`, and whether there is each of PARTS
    def initialize(build)
      @build = build
      freeze
    end

    # @return [String] what the loops wait with: "epoll", "kqueue" or "poll"
    def poller = @build.fetch(:poller)

    # @param part [Symbol] one of PARTS
    # @return [Boolean]
    def has?(part) = @build.fetch(part)

    # @return [Array<Symbol>] those of PARTS that there are not
    def lacks = PARTS.keys.reject { |part| has?(part) }

    # @param part [Symbol] one that there is not
    # @return [String] the reason why something else does not work
    def lack(part) = "this platform has no #{PARTS.fetch(part)} (docs/platforms.md)"

    # @return [String, nil] what the log says at boot; nil where nothing is lacking
    def summary
      names = PARTS.values_at(*lacks)
      "#{poller}, without #{names.join(', ')}" unless names.empty?
    end

    # @return [String] the folder that has /proc and /sys, as Linux has them. Elsewhere it is no folder: whoever reads
    #   in it gets a SystemCallError, as for a file that is not there.
    def root = has?(:proc) ? "/" : File::NULL

    # @return [Array<Integer>] what this process has open
    def descriptors
      Dir.children(File.join(root, "proc/self/fd")).map(&:to_i)
    rescue SystemCallError
      (0...[Process.getrlimit(:NOFILE).first, MOST_DESCRIPTORS].min).select { |fd| open?(fd) }
    end

    private

    def open?(descriptor)
      !IO.for_fd(descriptor, autoclose: false).nil?
    rescue SystemCallError, ArgumentError
      false # it is not, or is Ruby's own
    end
  end
end
