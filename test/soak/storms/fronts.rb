# frozen_string_literal: true

require_relative "../../support/front"

module Storms
  # A real proxy before the server, as docs/examples has it, and a phased restart every five seconds: 100,000 requests,
  # and no client sees an error, nor a kept connection that ends without a word.
  class Front < Storm
    REQUESTS = 100_000
    PAUSE = 5 # seconds between two beginnings

    private

    def blow
      raise Failed, "#{proxy::PROGRAM} is not installed" unless ::Programs.find(proxy::PROGRAM)

      count = 0
      Cluster.open("preload_app! false\n#{settings}", terms:) do |cluster|
        front = proxy.new(cluster.path("."), *Array.new(servers) { cluster.port })
        under_load_of(cluster, front) { |clients| count = restart(cluster, clients) }
      ensure
        front&.stop
      end
    ensure
      @figures["restarts"] = "#{count} phased"
    end

    def under_load_of(cluster, front)
      Storms.wait_for("an answer") { answers?(front.port) }
      clients = Clients.new(front.port, @clients, asking: Clients::MIXED)
      yield clients
    ensure
      clients&.stop
      judge(clients, ->(_note) { false }) if clients
      front.stop
      @wrong.concat(cluster.finish)
      check_log(cluster)
    end

    # Until there are enough answers, or so many rounds; returns how many restarts there were.
    def restart(cluster, clients)
      (0..).each do |nth|
        start = Storms.now
        Storms.wait_for("answers") { over?(nth, clients) || Storms.now - start >= (@rounds ? SHORT : PAUSE) }
        return nth if over?(nth, clients)

        before = cluster.workers
        cluster.signal(:USR1)
        cluster.renewed(before)
      end
    end

    def over?(rounds, clients) = @rounds ? rounds == @rounds : clients.answers >= REQUESTS

    def answers?(port)
      client = Wire::Client.new(port)
      client.call(Clients::CLOSING).status == 200
    rescue SystemCallError, EOFError
      false
    ensure
      client&.close
    end
  end

  # Behind nginx.
  class Nginx < Front
    named "nginx", "100,000 mixed requests through nginx, with phased restarts"

    private

    def proxy = ::Front::Nginx
    def servers = 1
    def settings = "trusted_proxies :loopback"
    def terms = ""
  end

  # Behind HAProxy, which says by the PROXY protocol for whom it asks.
  class HAProxy < Front
    named "haproxy", "100,000 mixed requests through HAProxy, with phased restarts"

    private

    def proxy = ::Front::HAProxy
    def servers = 2
    def settings = "readiness '/readyz'"
    def terms = "?proxy_protocol=v2"
  end
end
