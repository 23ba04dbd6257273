# frozen_string_literal: true

require_relative "../abaca"
require_relative "control/catalogue"
require_relative "web/streams"
require_relative "web/visitor"

module Abaca
  # The dashboard as a Rack app, to be mounted behind an app's login: the server that it runs in shows itself.
  #
  #   authenticate(:user, ->(user) { user.admin? }) { mount Abaca::Web => "/abaca" }   # config/routes.rb
  #
  # Whoever reaches it sees everything. It shows and does nothing else, unless `acts: true` lets it cancel requests and
  # look after workers. It needs Ruby's lock, as the app does: the server's own page answers also while that is taken.
  class Web
    NO_PAGE = "Abaca's dashboard has nothing to show here: this process is not served by Abaca, or its server has no " \
              "shared page (docs/sight.md)."
    TEXT = { "content-type" => "text/plain; charset=utf-8", "cache-control" => "no-store",
             "x-content-type-options" => "nosniff" }.freeze
    # What it may have done for anybody.
    LEVEL = :operate
    # What it has not: that takes long, and its chart is the control server's.
    LEFT_OUT = %w[profile].freeze
    private_constant :NO_PAGE, :TEXT, :LEVEL, :LEFT_OUT

    # So that the class itself can be mounted.
    #
    # @param env [Hash] Rack's
    # @return [Array] a Rack response
    def self.call(env) = (@usual ||= new).call(env)

    # @param acts [Boolean] whether it may do something: needs a control server or `dashboard true`
    def initialize(acts: false)
      @acts = acts
      @lock = Mutex.new
    end

    # @param env [Hash] Rack's
    # @return [Array] a Rack response
    def call(env)
      return answer(503, NO_PAGE) unless board

      verb, path = env.values_at("REQUEST_METHOD", "PATH_INFO")
      return act(env, path) if verb == "POST"
      return answer(405, "GET, HEAD or POST", "allow" => "GET, HEAD, POST") unless %w[GET HEAD].include?(verb)

      response = look(env, path)
      verb == "HEAD" ? [*response.first(2), []] : response
    end

    private

    # Each process has its own: a fork begins anew.
    def board
      @lock.synchronize do
        next @board if @pid == Process.pid

        @pid = Process.pid
        @page = Page.of(@pid)
        @board = Dashboard.new(@page, master: @page.size > 1 ? Process.ppid : @pid)
      end
    rescue Error, SystemCallError
      @board = nil
    end

    def look(env, path)
      visitor = Visitor.new(env)
      case path
      when "", "/" then page(visitor)
      when "/live" then live(env, visitor)
      when "/request" then request(visitor)
      else answer(404, "Not found")
      end
    end

    def page(visitor)
      deeds = Dashboard::Deeds.allowed { |name| allowed?(name) }
      html = @board.document(base: visitor.base, token: deeds.any? ? visitor.token : nil, deeds:,
                             help: "Reload the page, and log in again if need be.")
      [200, { **TEXT, "content-type" => "text/html; charset=utf-8", **Dashboard::Assets.fields,
                      **(deeds.any? ? visitor.cookie : {}) }, [html]]
    end

    def live(env, visitor)
      live = @board.live(visitor.method(:parameter))
      Streams.answer(env, live, { **TEXT, "content-type" => "text/event-stream", "x-accel-buffering" => "no" },
                     over: -> { draining? })
    end

    def request(visitor)
      found = @board.request(visitor.method(:parameter))
      return answer(404, "This request has ended, and was not kept") unless found

      [200, { **TEXT, "content-type" => "application/json" }, [found]]
    end

    # Its page's slot says so; what streams is to end.
    def draining? = @page.slots.any? { |slot| slot.pid == Process.pid && slot.state != :serving }

    # What is done, the control server does.
    def act(env, path)
      visitor = Visitor.new(env)
      deed = Dashboard::Deeds.find(path)
      return answer(404, "Not found") unless deed && allowed?(deed.name)
      return answer(403, "Not from another page") unless visitor.meant?

      id = visitor.parameter("id").to_s[/\A\d+\.q?\d+\z/] if deed.of_request?
      return answer(404, "No such request") if deed.of_request? && id.nil?

      reply = door.post(id ? "#{path}?id=#{id}" : path)
      answer(reply.status, reply.body)
    rescue Control::Client::Failed => e
      answer(502, e.message)
    end

    def allowed?(name)
      !door.nil? && !LEFT_OUT.include?(name) && Control::Catalogue.allowed?(name, LEVEL)
    end

    def door = @acts ? Control.door : nil

    def answer(status, text, more = {}) = [status, { **TEXT, **more }, [text]]
  end
end
