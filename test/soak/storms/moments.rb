# frozen_string_literal: true

module Storms
  # Signals at random moments of a hot restart: of a single process, of a master, and without a stand-in. Each of them
  # is acted on once, whichever program is there; TERM and INT end the process with status 0, and leave nothing behind.
  class Moments < Storm
    named "moments", "each signal at any moment of a hot restart (20 of each: --rounds 20)"

    SIGNALS = %i[HUP PWR URG USR1 USR2].freeze
    OF_MASTERS = %i[TTIN TTOU].freeze
    ENDING = %i[TERM INT].freeze
    # Workers, and more settings.
    KINDS = { single: [0, ""], cluster: [Cluster::WORKERS, ""], alone: [0, "restart_overlap false"] }.freeze
    SETTINGS = <<~'RUBY'
      activate_control_app "unix://control", { auth_token: "secret" }
      state_path "state"
      Abaca::Launcher.prepend(Module.new do
        def actions = super.to_h { |name, action| [name, -> { $stdout.syswrite("acted on #{name}\n") && action.call }] }
      end)
    RUBY

    private

    def blow
      @counts = Hash.new(0)
      @lengths = {} # of a restart, in seconds
      every(0) do
        KINDS.each_key do |kind|
          signals(kind)
          ENDING.each { |name| ending(kind, name) }
        end
      end
    ensure
      @figures["signals"] = @counts.map { |name, count| "#{count} #{name}" }.join(", ")
      @figures["a restart"] = @lengths.map { |kind, length| "#{kind} #{length.round(1)} s" }.join(", ")
    end

    # All that end nothing, each at a moment of its own.
    def signals(kind)
      names = SIGNALS + (kind == :cluster ? OF_MASTERS : [])
      with_server(kind) do |cluster|
        cluster.signal(:USR2)
        moments = names.to_h { |name| [name, moment(kind)] }.sort_by(&:last)
        began = Storms.now
        moments.each do |name, at|
          sleep([began + at - Storms.now, 0].max) # the subject
          send_to(cluster, name)
        end
        compare(cluster, moments)
      end
    end

    # The restart that the last one asks for may still go on.
    def compare(cluster, moments)
      expected = { "USR2" => 1 }.merge(moments.to_h { |name, _| [name.to_s, 1] }) { |_, one, other| one + other }
      begin
        Storms.wait_for("what was sent") { expected.all? { |name, count| acted_on(cluster)[name].to_i >= count } }
      rescue Failed
        nil # what is missing is found below
      end
      @wrong.concat(cluster.finish)
      found = acted_on(cluster)
      expected.each do |name, count|
        next if found[name] == count

        @wrong << "#{name} was acted on #{found[name].to_i} times, not #{count}: #{moments.to_h}, #{cluster.last_lines}"
      end
    end

    def ending(kind, name)
      with_server(kind) do |cluster|
        cluster.signal(:USR2)
        sleep(at = moment(kind)) # the subject
        send_to(cluster, name)
        Storms.wait_for("the end, #{at} s after USR2") { cluster.ended? }
        status = cluster.ended?
        when_it_came = "#{kind}: #{name} #{at} s after USR2:"
        @wrong << "#{when_it_came} #{status}, #{cluster.last_lines}" unless status.exitstatus&.zero?
        @wrong.concat(cluster.leftovers.map { |what| "#{when_it_came} #{what}" })
      end
    end

    def with_server(kind, &)
      @lengths[kind] ||= new_server(kind) { |cluster| length(cluster) }
      new_server(kind, &)
    end

    def new_server(kind)
      workers, settings = KINDS.fetch(kind)
      Cluster.open("#{SETTINGS}#{settings}", workers:) do |cluster|
        cluster.port
        yield cluster
      end
    end

    # Of a restart that nothing disturbs.
    def length(cluster)
      began = Storms.now
      boots = cluster.text.scan("Use Ctrl-C").size
      cluster.signal(:USR2)
      Storms.wait_for("the restart") { cluster.text.scan("Use Ctrl-C").size > boots && cluster.settled? }
      Storms.now - began
    end

    def moment(kind) = @random.rand(@lengths.fetch(kind))

    def send_to(cluster, name)
      cluster.signal(name)
      @counts[name] += 1
    end

    def acted_on(cluster) = cluster.text.scan(/^acted on (\w+)$/).flatten.tally
  end
end
