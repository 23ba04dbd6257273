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

      # @param protocol [Symbol] of Load
      # @return [Boolean] whether it can be measured with it
      def speaks?(protocol) = protocol == :http1

      # @param port [Integer]
      # @param size [Integer] bytes of the body
      # (Those that speak more take `protocol:`, and with TLS `pair:`, the files of a certificate. Ruby servers take
      # `app:`, the path of a config.ru.)
      # @return [Array<String>]
      def command(port:, size:)
        raise NotImplementedError
      end

      # @return [Hash] variables for the process
      def env(size:) = { "BODY" => size.to_s, "RACK_ENV" => "production", "NODE_ENV" => "production" }
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

      # @param terms [Hash] `plain`, one more port, without TLS; `connections`, at most
      def command(port:, size:, protocol: :http1, pair: nil, **terms)
        folder = File.join(TMP, ["nginx", protocol, size, pair && File.basename(pair[:cert], ".pem")].compact.join("-"))
        FileUtils.mkdir_p(folder)
        File.write(File.join(folder, "body.txt"), "x" * size)
        listen = ["#{port}#{" ssl" if pair}#{" http2" if %i[h2 h2c].include?(protocol)}", *terms[:plain]]
        text = configuration(listen, pair: pair, size: size, folder: folder, **terms.slice(:connections))
        File.write(File.join(folder, "nginx.conf"), text)
        [@program, "-p", folder, "-c", "nginx.conf", "-e", "error.log"]
      end

      private

      # No master process, no log, and connections that live as long as the client wants.
      def configuration(listen, pair:, size:, folder:, connections: 16_384)
        listen = listen.map { |terms| "listen 127.0.0.1:#{terms} deferred backlog=4096;" }
        listen << "ssl_certificate #{pair[:cert]}; ssl_certificate_key #{pair[:key]};" if pair
        <<~CONF
          daemon off;
          master_process off;
          worker_processes 1;
          pid nginx.pid;
          events { worker_connections #{connections}; }
          http {
            access_log off;
            default_type text/plain;
            sendfile on;
            tcp_nodelay on;
            keepalive_requests 1000000000;
            keepalive_timeout 600;
            ssl_protocols TLSv1.2 TLSv1.3;
            open_file_cache max=10;
            #{temporary_folders}
            server {
              #{listen.join(" ")}
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
        @lib = @ruby.abaca(@checkout&.root || ROOT)
        @rack = Gems.new("rack", ruby: @ruby, with: []).tap(&:install) unless @ruby.here?
      end

      def speaks?(_) = true
      def env(size:) = super.merge(@rack ? @rack.env : {})
      def version = File.read(File.join(@lib, "abaca", "version.rb"))[/VERSION\s*=\s*"(.+?)"/, 1]

      # @param app [String] path of the config.ru
      # @param options [Array<String>] more for the command line
      # @param settings [Hash{Symbol => Object}] of a configuration file
      # @param terms [Hash] `protocol` of Load; `pair`, the files of a certificate: TLS; `plain`, a port without it
      def command(port:, app: APP, options: [], settings: {}, **terms)
        @ruby.command("-I#{@lib}", exe, "-q", "-C", settings.empty? ? "-" : file(port, settings),
                      *options, "-b", place(port, **terms), *other_place(**terms), app)
      end

      private

      # The chroot of another Ruby has that of this checkout alone, which loads from @lib first.
      def exe = @ruby.here? && @checkout ? @checkout.exe : EXE

      def other_place(plain: nil, **) = (["-b", "tcp://127.0.0.1:#{plain}"] if plain)

      def place(port, protocol: :http1, pair: nil, **)
        return "ssl://127.0.0.1:#{port}?cert=#{pair[:cert]}&key=#{pair[:key]}" if pair

        "tcp://127.0.0.1:#{port}#{"?h2c=true" if protocol == :h2c}"
      end

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
      def speaks?(protocol) = %i[http1 https].include?(protocol)

      # @param app [String] path of the config.ru
      # @param threads [Integer] fixed number of threads
      # @param workers [Integer] that it forks
      # @param terms [Hash] `pair`, the files of a certificate: TLS; `preload`, whether the master loads the app
      def command(port:, app: APP, threads: 5, workers: 0, **terms)
        preload = terms.fetch(:preload, workers > 1)
        @ruby.command(@gems.executable, "-q", "-C", "-", "-w", workers.to_s,
                      *("--preload" if preload), "-t", "#{threads}:#{threads}", "-b", place(port, **terms), app)
      end

      private

      def place(port, pair: nil, **)
        pair ? "ssl://127.0.0.1:#{port}?cert=#{pair[:cert]}&key=#{pair[:key]}" : "tcp://127.0.0.1:#{port}"
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
      def speaks?(protocol) = %i[http1 https h2].include?(protocol)

      # @param app [String] path of the config.ru
      # @param fibers [Boolean] a fiber for each request, on itsi's own scheduler
      # @param threads [Integer]
      # @param pair [Hash, nil] files of a certificate: TLS
      def command(port:, app: APP, fibers: false, threads: 1, pair: nil, **)
        file = File.join(TMP, "itsi-#{port}.rb")
        FileUtils.mkdir_p(TMP)
        File.write(file, <<~CONF)
          #{"require \"itsi/scheduler\"\nfiber_scheduler \"Itsi::Scheduler\"" if fibers}
          workers 1
          threads #{threads}
          ruby_thread_request_backlog_size 4096
          bind "http#{"s" if pair}://127.0.0.1:#{port}#{"?cert=#{pair[:cert]}&key=#{pair[:key]}" if pair}"
          rackup_file "#{app}"
        CONF
        @ruby.command(@gems.executable, "-C", file, "serve")
      end
    end

    # One forked instance below its supervisor; both are measured.
    class Falcon < GemServer
      def speaks?(protocol) = %i[http1 https h2].include?(protocol)

      # @param workers [Integer] that it forks
      # @param pair [Hash, nil] files of a certificate: TLS
      def command(port:, app: APP, workers: 1, pair: nil, **)
        return @ruby.command(@gems.executable, "host", file(port, app, pair)) if pair

        @ruby.command(@gems.executable, "serve", "--forked", "--count", workers.to_s,
                      "--bind", "http://127.0.0.1:#{port}", "--config", app)
      end

      # It would take the bundle of the folder that it is started in.
      def env(size:)
        super.merge("CONSOLE_LEVEL" => "warn", "BUNDLE_GEMFILE" => "/no/Gemfile")
      end

      private

      # `falcon serve` makes certificates of its own, with other curves than the clients offer.
      def file(port, app, pair)
        FileUtils.mkdir_p(TMP)
        File.join(TMP, "falcon-#{port}.rb").tap do |path|
          File.write(path, <<~CONF)
            require "falcon/environment/rack"
            service "hello" do
              include Falcon::Environment::Rack
              rackup_path #{app.dump}
              count 1
              endpoint do
                context = OpenSSL::SSL::SSLContext.new
                context.cert = OpenSSL::X509::Certificate.new(File.read(#{pair[:cert].dump}))
                context.key = OpenSSL::PKey.read(File.read(#{pair[:key].dump}))
                context.alpn_select_cb = ->(names) { (%w[h2 http/1.1] & names).first }
                context.session_id_context = "hello"
                Async::HTTP::Endpoint.parse("https://127.0.0.1:#{port}", ssl_context: context)
              end
            end
          CONF
        end
      end
    end

    # Node's own HTTP servers.
    class Node < Server
      PROGRAMS = { http1: "node_http.mjs", https: "node_http.mjs", h2c: "node_http2.mjs", h2: "node_http2.mjs" }.freeze

      def prepare = @program = Tools.find("node")
      def version = Machine.output_of(@program, "--version")
      def speaks?(protocol) = PROGRAMS.key?(protocol)

      # @param script [String] another program, below servers/
      def command(port:, size:, protocol: :http1, pair: nil, script: PROGRAMS.fetch(protocol), **)
        [@program, File.join(DIR, "servers", script), port.to_s, size.to_s, *pair&.values]
      end
    end

    # Bun's own HTTP server. Its binary comes from npm.
    class Bun < Server
      # Requests that its client has at once. Without it they are 256: what a gateway is asked beyond would wait.
      FETCHES = { "BUN_CONFIG_MAX_HTTP_REQUESTS" => "4096" }.freeze

      def prepare
        @package = Packages.new("bun")
        @package.install
      end

      def version = @package.version
      def speaks?(protocol) = %i[http1 https].include?(protocol)
      def env(size:) = super.merge(FETCHES)

      # @param script [String] another program, below servers/
      def command(port:, size:, pair: nil, script: "bun_http.mjs", **)
        [@package.executable, File.join(DIR, "servers", script), port.to_s, size.to_s, *pair&.values]
      end
    end

    # Go's own server, on one processor.
    class Go < Server
      def prepare = build("hello.go")

      def version = Machine.output_of(Tools.find("go"), "version").to_s[/go([\d.]+)/, 1]
      def speaks?(protocol) = %i[http1 https h2].include?(protocol)
      def env(size:) = super.merge("GOMAXPROCS" => "1")

      # @param source [String] another program, below servers/
      def command(port:, size:, pair: nil, source: "hello.go", **)
        [build(source), port.to_s, size.to_s, *pair&.values]
      end

      private

      # Go itself knows whether there is something to do.
      def build(source)
        program = File.join(TMP, "#{File.basename(source, ".go")}_go")
        FileUtils.mkdir_p(TMP)
        text, status = Open3.capture2e(Tools.find("go"), "build", "-o", program, File.join(DIR, "servers", source))
        raise Unavailable, "does not compile: #{text.lines.last}" unless status.success?

        program
      end
    end

    # h2o with files. Only measured with HTTP/2 or TLS.
    class H2o < Server
      def prepare = @program = Tools.find("h2o")
      def version = Machine.output_of(@program, "--version").to_s[/h2o version ([\d.]+)/, 1]
      def speaks?(protocol) = %i[https h2c h2].include?(protocol)

      def command(port:, size:, pair: nil, **)
        folder = File.join(TMP, "h2o-#{size}")
        secure = ", ssl: { certificate-file: \"#{pair[:cert]}\", key-file: \"#{pair[:key]}\" }" if pair
        FileUtils.mkdir_p(folder)
        File.write(File.join(folder, "index.txt"), size == 12 ? "Hello World\n" : "x" * size)
        File.write(File.join(folder, "h2o.conf"), <<~CONF)
          #{"user: root" if Process.uid.zero?}
          num-threads: 1
          listen: { host: 127.0.0.1, port: #{port}#{secure} }
          hosts: { default: { paths: { "/": { file.dir: "#{folder}", file.index: [index.txt] } } } }
        CONF
        [@program, "-m", "worker", "-c", File.join(folder, "h2o.conf")]
      end
    end

    # In the order of the table: the floor, ours, its peers among Rack servers, and the others.
    ALL = [Limit, Abaca, Puma, Iodine, Itsi, Falcon, Node, Bun, Go, Nginx, H2o].freeze

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
