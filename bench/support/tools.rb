# frozen_string_literal: true

module Bench
  # Programs from Debian's packages that a benchmark needs.
  module Tools
    PACKAGES = { "wrk" => "wrk", "nginx" => "nginx-light", "node" => "nodejs", "gcc" => "gcc", "taskset" => "util-linux" }
               .freeze

    module_function

    # Installs what is missing when that is allowed here (root on Debian).
    # @raise [Unavailable] when the program is not there and cannot be installed
    # @return [String] its path
    def find(program)
      path(program) || install(program) || raise(Unavailable, "#{program} is not installed (apt-get install #{PACKAGES[program]})")
    end

    def path(program)
      folders = ENV.fetch("PATH", "").split(":") + %w[/usr/sbin /sbin]
      folders.map { |folder| File.join(folder, program) }.find { |file| File.executable?(file) }
    end

    def install(program)
      return unless Process.uid.zero? && path("apt-get")

      warn "bench: installing #{PACKAGES[program]}"
      env = { "DEBIAN_FRONTEND" => "noninteractive" }
      system(env, "apt-get", "install", "-y", "--no-install-recommends", PACKAGES[program], out: File::NULL, err: File::NULL)
      path(program)
    end
    private_class_method :path, :install
  end
end
