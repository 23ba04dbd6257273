# frozen_string_literal: true

require "fileutils"
require "socket"
require_relative "programs"
require_relative "waits"

# nginx or HAProxy in front of servers, as docs/examples has it, but for its addresses. The socket on which it listens
# is opened here and inherited, so that its port is free.
class Front
  EXAMPLES = File.expand_path("../../docs/examples", __dir__)
  LISTENER = 3 # its descriptor in the proxy
  PATIENCE = 5 # seconds that a proxy may take to end

  # @return [Integer] its port on 127.0.0.1
  attr_reader :port

  # @param folder [String] for its files; they stay until the folder goes
  # @param servers [Array<Integer>] ports, one for each server of the example
  def initialize(folder, *servers)
    @folder = folder
    @servers = servers
    listener = Socket.tcp_server_sockets("127.0.0.1", 0).first
    @port = listener.local_address.ip_port
    configure
    @pid = Process.spawn(environment, *words, LISTENER => listener, in: File::NULL, %i[out err] => [log, "a"])
  ensure
    listener&.close
  end

  # @return [String] what it has said
  def text = File.exist?(log) ? File.read(log) : ""

  # Ends it; idempotent.
  def stop
    return unless @pid

    Process.kill(:TERM, @pid)
    return if Waits.eventually(within: PATIENCE) { Process.wait(@pid, Process::WNOHANG) }

    Process.kill(:KILL, @pid)
    Process.wait(@pid)
  ensure
    @pid = nil
  end

  private

  def log = File.join(@folder, "#{self.class.name}.log")

  def environment = Programs::ENVIRONMENT

  # The example with other addresses. Each must be there, or the example has changed.
  def example(name, changes)
    changes.reduce(File.read(File.join(EXAMPLES, name))) do |text, (from, to)|
      raise "#{name} has no #{from.inspect}" unless text.include?(from)

      text.sub(from, to)
    end
  end

  def servers_of_example
    @servers.each_with_index.to_h { |port, nth| ["127.0.0.1:#{3000 + nth}", "127.0.0.1:#{port}"] }
  end

  # nginx, two processes.
  class Nginx < Front
    PROGRAM = "nginx"

    private

    def configure
      FileUtils.mkdir_p(File.join(@folder, "nginx"))
      File.write(File.join(@folder, "nginx/abaca.conf"),
                 example("nginx.conf", { "listen 80;" => "listen 127.0.0.1:#{port};", **servers_of_example }))
      File.write(File.join(@folder, "nginx/nginx.conf"), <<~CONF)
        #{"user root;" if Process.uid.zero?}
        daemon off;
        worker_processes 2;
        pid nginx.pid;
        error_log stderr warn;
        events { worker_connections 1024; }
        http {
          access_log off;
          #{%w[client_body proxy fastcgi uwsgi scgi].map { |kind| "#{kind}_temp_path #{kind};" }.join(" ")}
          include abaca.conf;
        }
      CONF
    end

    def words = [Programs.find(PROGRAM), "-p", File.join(@folder, "nginx"), "-c", "nginx.conf", "-e", "stderr"]

    # As it hands its listeners over to its next program.
    def environment = super.merge("NGINX" => "#{LISTENER};")
  end

  # HAProxy, which sends the PROXY protocol.
  class HAProxy < Front
    PROGRAM = "haproxy"

    private

    def configure
      text = example("haproxy.cfg", { "bind :80" => "bind fd@#{LISTENER}", **servers_of_example })
      File.write(File.join(@folder, "haproxy.cfg"), text)
    end

    def words = [Programs.find(PROGRAM), "-db", "-f", File.join(@folder, "haproxy.cfg")]
  end
end
