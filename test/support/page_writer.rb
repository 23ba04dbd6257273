# frozen_string_literal: true

require "tmpdir"
require_relative "../../ext/abaca/probes"

# Writes into the page of a process of this user's: test/c/page/writer.c, which another process runs, by the functions
# that a server writes with.
module PageWriter
  ROOT = File.expand_path("../..", __dir__)

  class << self
    # arguments: "scene", "rows" or "series" and their number, "garbage" and a seed.
    def write(pid, slot, *arguments)
      raise "the page could not be written" unless system(program, pid.to_s, slot.to_s, *arguments.map(&:to_s))
    end

    private

    # Compiled once.
    def program
      @program ||= begin
        folder = Dir.mktmpdir
        Minitest.after_run { FileUtils.rm_rf(folder) }
        sources = Dir["#{ROOT}/ext/abaca/{page,os,base}/*.c", "#{ROOT}/test/c/page/writer.c"]
        flags = ["-std=c11", *Probes.flags_of("cc"), "-Wall", "-Wextra", "-Werror", "-O1", "-I", "#{ROOT}/ext/abaca"]
        File.join(folder, "writer").tap do |name|
          system("cc", *flags, *sources, "-lpthread", "-o", name, exception: true)
        end
      end
    end
  end
end
