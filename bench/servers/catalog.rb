# frozen_string_literal: true

module Bench
  # The servers that can be compared. Each entry says how to get one, how to start it as a single
  # process that listens on 127.0.0.1, and which version it is.
  module Catalog
    APP = File.join(DIR, "apps", "hello.ru")

    # What the entries share. A subclass answers `command` and may answer the rest.
    class Server
      # @param ruby [Ruby] runs the servers that are written in Ruby
      def initialize(ruby: Ruby.here)
        @ruby = ruby
      end

      # @return [String] as given to --only
      def name = self.class.name.split("::").last.downcase

      # Installs or compiles what is needed.
      # @raise [Unavailable]
      def prepare; end

      # @return [String, nil]
      def version = nil

      # @param protocol [Symbol] :http1, or :h2c: HTTP/2 without TLS
      # @return [Boolean] whether it can be measured with it
      def speaks?(protocol) = protocol == :http1

      # @param port [Integer]
      # @param size [Integer] bytes of the body
      # (Those that speak more take `protocol:`, Ruby servers `app:`, the path of a config.ru.)
      # @return [Array<String>]
      def command(port:, size:)
        raise NotImplementedError
      end

      # @return [Hash] variables for the process
      def env(size:) = { "BODY" => size.to_s }
    end

    # The floor: a C program that only answers.
    class Limit < Server
      def prepare = @program = Compiler.program("servers/limit_epoll.c")

      # @param closing [Boolean] after every answer
      def command(port:, size:, closing: false, **) = [@program, "-p", port.to_s, "-s", size.to_s, *("-c" if closing)]
    end

    # nginx with `return 200`; bodies that do not fit into its configuration come from a file.
    class Nginx < Server
      def prepare = @program = Tools.find("nginx")
      def version = Machine.output_of(@program, "-v").to_s[%r{nginx/([\d.]+)}, 1]

      def speaks?(_) = true

      def command(port:, size:, protocol: :http1)
        folder = File.join(TMP, "nginx-#{protocol}-#{size}")
        FileUtils.mkdir_p(folder)
        File.write(File.join(folder, "body.txt"), "x" * size)
        File.write(File.join(folder, "nginx.conf"),
                   configuration(terms: "#{port}#{" http2" if protocol == :h2c}", size: size, folder: folder))
        [@program, "-p", folder, "-c", "nginx.conf", "-e", "error.log"]
      end

      private

      # No master process, no log, and connections that live as long as the client wants.
      def configuration(terms:, size:, folder:)
        <<~CONF
          daemon off;
          master_process off;
          worker_processes 1;
          pid nginx.pid;
          events { worker_connections 4096; }
          http {
            access_log off;
            default_type text/plain;
            sendfile on;
            tcp_nodelay on;
            keepalive_requests 1000000000;
            open_file_cache max=10;
            #{temporary_folders}
            server {
              listen 127.0.0.1:#{terms} deferred backlog=4096;
              location / { #{size == 12 ? 'return 200 "Hello World\n";' : "root #{folder}; rewrite ^ /body.txt break;"} }
            }
          }
        CONF
      end

      def temporary_folders
        %w[client_body proxy fastcgi uwsgi scgi].map { |kind| "#{kind}_temp_path #{kind};" }.join(" ")
      end
    end

    # This project, from the working tree or from another checkout.
    class Abaca < Server
      EXE = File.join(ROOT, "exe", "abaca")

      # @param checkout [Against, nil]
      def initialize(checkout: nil, **options)
        @checkout = checkout
        super(**options)
      end

      def name = @checkout&.name || super

      # Another Ruby than the one that runs this has a Rack of its own.
      def prepare
        raise Unavailable, "compiled for Ruby #{Ruby.here.name} alone" unless @checkout.nil? || @ruby.here?

        @lib = @checkout&.lib || @ruby.abaca
        @rack = Gems.new("rack", ruby: @ruby, with: []).tap(&:install) unless @ruby.here?
      end

      def speaks?(_) = true
      def env(size:) = super.merge(@rack ? @rack.env : {})
      def version = File.read(File.join(@lib, "abaca", "version.rb"))[/VERSION\s*=\s*"(.+?)"/, 1]

      # @param app [String] path of the config.ru
      # @param options [Array<String>] more for the command line
      # @param settings [Hash{Symbol => Object}] of a configuration file
      # @param protocol [Symbol]
      def command(port:, app: APP, options: [], settings: {}, protocol: :http1, **)
        terms = "?h2c=true" if protocol == :h2c
        @ruby.command("-I#{@lib}", @checkout&.exe || EXE, "-q", "-C", settings.empty? ? "-" : file(port, settings),
                      *options, "-b", "tcp://127.0.0.1:#{port}#{terms}", app)
      end

      private

      def file(port, settings)
        FileUtils.mkdir_p(TMP)
        File.join(TMP, "abaca-#{port}.rb").tap do |path|
          File.write(path, settings.map { |name, value| "#{name} #{Array(value).map(&:inspect).join(", ")}\n" }.join)
        end
      end
    end

    # A server from a gem: installed into a folder of its own, started by its executable.
    class GemServer < Server
      def prepare
        @gems = Gems.new(name, ruby: @ruby)
        @gems.install
      end

      def version = @gems.version
      def env(size:) = super.merge(@gems.env)
    end

    # One process, five threads: puma's own default for CRuby.
    class Puma < GemServer
      # @param app [String] path of the config.ru
      # @param threads [Integer] fixed number of threads
      # @param workers [Integer] that it forks, after it has loaded the app
      # @param bundled [Boolean] whether the app has a bundle, in which there is no puma
      def command(port:, app: APP, threads: 5, workers: 0, bundled: false, **)
        program = bundled ? ["-I#{@gems.folder}/lib", "#{@gems.folder}/bin/puma"] : [@gems.executable]
        @ruby.command(*program, "-q", "-C", "-", "-e", "production", "-w", workers.to_s, *("--preload" if workers > 1),
                      "-t", "#{threads}:#{threads}", "-b", "tcp://127.0.0.1:#{port}", app)
      end
    end

    # One process, one thread.
    class Iodine < GemServer
      # @param app [String] path of the config.ru
      # @param threads [Integer]
      def command(port:, app: APP, threads: 1, **)
        @ruby.command(@gems.executable, "-t", threads.to_s, "-w", "1", "-b", "127.0.0.1", "-p", port.to_s, app)
      end
    end

    # One thread. Its queue for that thread is lengthened, because it answers 503 to most of 64
    # connections otherwise.
    class Itsi < GemServer
      # @param app [String] path of the config.ru
      # @param fibers [Boolean] a fiber for each request, on itsi's own scheduler
      # @param threads [Integer]
      def command(port:, app: APP, fibers: false, threads: 1, **)
        file = File.join(TMP, "itsi-#{port}.rb")
        FileUtils.mkdir_p(TMP)
        File.write(file, <<~CONF)
          #{"require \"itsi/scheduler\"\nfiber_scheduler \"Itsi::Scheduler\"" if fibers}
          workers 1
          threads #{threads}
          ruby_thread_request_backlog_size 4096
          bind "http://127.0.0.1:#{port}"
          rackup_file "#{app}"
        CONF
        @ruby.command(@gems.executable, "-C", file, "serve")
      end
    end

    # One forked instance below its supervisor; both are measured.
    class Falcon < GemServer
      def command(port:, app: APP, **)
        @ruby.command(@gems.executable, "serve", "--forked", "--count", "1",
                      "--bind", "http://127.0.0.1:#{port}", "--config", app)
      end

      def env(size:) = super.merge("CONSOLE_LEVEL" => "warn", "RACK_ENV" => "production")
    end

    # Node's own HTTP servers.
    class Node < Server
      PROGRAMS = { http1: "node_http.mjs", h2c: "node_h2c.mjs" }.freeze

      def prepare = @program = Tools.find("node")
      def version = Machine.output_of(@program, "--version")
      def speaks?(protocol) = PROGRAMS.key?(protocol)

      def command(port:, size:, protocol: :http1)
        [@program, File.join(DIR, "servers", PROGRAMS.fetch(protocol)), port.to_s, size.to_s]
      end
    end

    # h2o with files. Only measured with HTTP/2.
    class H2o < Server
      def prepare = @program = Tools.find("h2o")
      def version = Machine.output_of(@program, "--version").to_s[/h2o version ([\d.]+)/, 1]
      def speaks?(protocol) = protocol == :h2c

      def command(port:, size:, **)
        folder = File.join(TMP, "h2o-#{size}")
        FileUtils.mkdir_p(folder)
        File.write(File.join(folder, "index.txt"), size == 12 ? "Hello World\n" : "x" * size)
        File.write(File.join(folder, "h2o.conf"), <<~CONF)
          #{"user: root" if Process.uid.zero?}
          num-threads: 1
          listen: { host: 127.0.0.1, port: #{port} }
          hosts: { default: { paths: { "/": { file.dir: "#{folder}", file.index: [index.txt] } } } }
        CONF
        [@program, "-m", "worker", "-c", File.join(folder, "h2o.conf")]
      end
    end

    # In the order of the table: the floor, ours, its peers among Rack servers, and the others.
    ALL = [Limit, Abaca, Puma, Iodine, Itsi, Falcon, Node, Nginx, H2o].freeze

    module_function

    # @param names [Array<String>, nil] those wanted; all when nil
    # @param ruby [Ruby] for the servers that need one
    # @param against [Against, nil] the checkout that follows Abaca
    # @return [Array<Server>]
    # @raise [ArgumentError] for an unknown name
    def pick(names = nil, ruby: Ruby.here, against: nil)
      servers = Bench.pick(ALL.map { |server| server.new(ruby: ruby) }, names, "server")
      return servers unless against

      servers.flat_map { |one| one.is_a?(Abaca) ? [one, Abaca.new(ruby: ruby, checkout: against)] : [one] }
    end
  end
end
