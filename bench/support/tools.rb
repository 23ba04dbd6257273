# frozen_string_literal: true

module Bench
  # Programs from Debian's packages that a benchmark needs.
  module Tools
    PACKAGES = {
      "wrk" => "wrk", "ab" => "apache2-utils", "nginx" => "nginx-light", "node" => "nodejs", "npm" => "npm",
      "go" => "golang-go", "h2load" => "nghttp2-client", "nghttp" => "nghttp2-client", "h2o" => "h2o",
      "gcc" => "gcc", "taskset" => "util-linux", "mariadbd" => "mariadb-server-core",
      "my_print_defaults" => "mariadb-client-core", "mariadb_config" => "libmariadb-dev",
      "pg_config" => "libpq-dev", "pg_createcluster" => "postgresql", "perf" => "linux-perf", "strace" => "strace"
    }.freeze

    module_function

    # Installs what is missing when that is allowed here (root on Debian).
    # @raise [Unavailable] when the program is not there and cannot be installed
    # @return [String] its path
    def find(program)
      path(program) || install(program) ||
        raise(Unavailable, "#{program} is not installed (apt-get install #{PACKAGES.fetch(program)})")
    end

    def path(program)
      folders = ENV.fetch("PATH", "").split(":") + %w[/usr/sbin /sbin]
      folders.map { |folder| File.join(folder, program) }.find { |file| File.executable?(file) }
    end

    def install(program)
      return unless Process.uid.zero? && path("apt-get")

      package = PACKAGES.fetch(program)
      warn "bench: installing #{package}"
      system({ "DEBIAN_FRONTEND" => "noninteractive" }, "apt-get", "install", "-y", "--no-install-recommends", package,
             out: File::NULL, err: File::NULL)
      path(program)
    end
    private_class_method :path, :install
  end
end
