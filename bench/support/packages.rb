# frozen_string_literal: true

require "fileutils"
require "json"

module Bench
  # A published npm package in a folder of its own below tmp/.
  class Packages
    LIMIT = 180 # seconds for one installation

    # @param name [String]
    def initialize(name)
      @name = name
      @home = File.join(ROOT, "tmp", "bench-npm", name)
    end

    # Installs the newest version, once; a failure is remembered too, until its folder is removed.
    # @raise [Unavailable] with the reason
    def install
      reason = File.join(@home, "unavailable.txt")
      raise Unavailable, File.read(reason) if File.exist?(reason)
      return if version

      npm = Tools.find("npm")
      warn "bench: installing #{@name} by npm"
      FileUtils.mkdir_p(@home)
      text, success = run(npm)
      return if success && version

      File.write(reason, "does not install: #{text.lines.grep(/npm ERR!|error/i).first.to_s.strip[0, 90]}")
      raise Unavailable, File.read(reason)
    end

    # @return [String, nil] the installed version
    def version
      file = File.join(@home, "node_modules", @name, "package.json")
      JSON.parse(File.read(file)).fetch("version") if File.exist?(file)
    end

    # @return [String] path of its executable
    def executable = File.join(@home, "node_modules", ".bin", @name)

    private

    def run(npm)
      command = [npm, "install", "--no-audit", "--no-fund", "--prefix", @home, @name]
      text, status = Child.run(command, name: "install-#{@name}", seconds: LIMIT)
      status ? [text, status.success?] : ["error: not installed within #{LIMIT} s", false]
    end
  end
end
