# frozen_string_literal: true

require "socket"
require_relative "../support/cluster_case"

# For tests that scrape servers of the command.
module MetricsCase
  include ClusterCase

  # Seconds in which an answer comes from the page.
  SOON = 10
  DURATION = "http_server_request_duration_seconds"

  def config(workers, more = "")
    @port = free_port
    "workers #{workers}\nmetrics_port #{@port}\n#{more}\n"
  end

  def free_port
    socket = TCPServer.new("127.0.0.1", 0)
    socket.addr[1]
  ensure
    socket.close
  end

  # Returns status, fields and body.
  def fetch(path = "/metrics", verb: "GET", fields: {}, socket: TCPSocket.new("127.0.0.1", @port))
    fields = { "Host" => "127.0.0.1:#{@port}" }.merge(fields)
    socket.write("#{verb} #{path} HTTP/1.1\r\n#{fields.map { |name, value| "#{name}: #{value}\r\n" }.join}\r\n")
    raise "no answer to #{path}" unless socket.wait_readable(SOON)

    head, body = socket.read.split("\r\n\r\n", 2)
    lines = head.split("\r\n")
    [lines.first[/\d{3}/].to_i, lines.drop(1).to_h { |line| line.split(": ", 2) }, body]
  ensure
    socket&.close
  end

  def request(command, path, verb: "GET", fields: {})
    more = fields.map { |name, value| "#{name}: #{value}\r\n" }.join
    client = Wire::Client.new(command.port)
    client.call("#{verb} #{path} HTTP/1.1\r\nHost: a.test\r\n#{more}Connection: close\r\n\r\n")
  ensure
    client&.close
  end
end
