# frozen_string_literal: true

require_relative "counts"

module Bench
  class Guard
    # The parts of parts.c under callgrind.
    class Parts
      NAMES = %w[parser outbox].freeze # in the order of parts.c
      ROUNDS = 1000 # as there
      ROOMS = "{base,http,http1,outbox}"
      DEADLINE = 300

      # @param folder [String] for callgrind's files
      # @param root [String] the checkout whose sources are compiled
      def initialize(folder:, root:)
        @profiles = File.join(folder, "parts")
        @root = root
      end

      # @return [Hash{String => Counts}]
      def count
        child = Child.new(["valgrind", "--tool=callgrind", "--instr-atstart=no", "--separate-threads=yes",
                           "--collect-systime=usec", "--callgrind-out-file=#{@profiles}", program],
                          name: "guard-parts-#{Process.pid}")
        status = child.wait(seconds: DEADLINE)
        raise Failed, "parts.c: #{child.last_words}" unless status&.success?

        File.delete(child.log)
        NAMES.each.with_index(1).to_h do |name, number|
          [name, Counts.read(Dir["#{@profiles}.#{2 * number}-*"].fetch(0)).share(ROUNDS)]
        end
      ensure
        child&.stop
      end

      private

      # Compiled anew for each count, into its folder: that takes seconds, and the sources are many.
      def program
        extension = File.join(@root, "ext", "abaca")
        sources = Dir[File.join(extension, ROOMS, "*.c"), File.join(__dir__, "{parts,counted}.c")]
        target = "#{@profiles}.program"
        text, status = Open3.capture2e("gcc", *Compiler::FLAGS, "-I", extension, *sources, "-lm", "-o", target)
        raise Failed, "parts.c does not compile: #{text[/^.*error.*$/] || text.lines.first}" unless status.success?

        target
      end
    end
  end
end
