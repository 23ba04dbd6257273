# frozen_string_literal: true

# What a system has beyond POSIX 2008, and how the C code learns it: each probe is a piece of C that either compiles and
# links, or does not. extconf.rb asks them, and so does whoever compiles C without it (test/c_tests.rb); they become
# -DAB_HAS_NAME, for the rooms os and io alone.
#
# ABACA_PORTABLE=1 answers no to all of them, and hides from the headers of the system what is not POSIX 2008: the
# build that a system without any of it would have.
module Probes
  # What Linux has; elsewhere some of it. Each is a piece of C by the headers that it needs.
  LINUX = {
    "WIPE_ON_FORK" => ["sys/mman.h", "madvise(0, 0, MADV_WIPEONFORK);"],
    "MEMFD" => ["sys/mman.h", "memfd_create(\"\", MFD_CLOEXEC | MFD_ALLOW_SEALING);"],
    "MKOSTEMP" => ["fcntl.h stdlib.h", "char path[7] = \"XXXXXX\"; mkostemp(path, O_CLOEXEC);"],
    "SEALS" => ["fcntl.h", "fcntl(0, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);"],
    "HUGE_PAGES" => ["sys/mman.h", "madvise(0, 0, MADV_NOHUGEPAGE);"],
    "FALLOCATE" => ["fcntl.h", "posix_fallocate(0, 0, 0);"]
  }.freeze

  class << self
    # @param portable [Boolean] as if there were nothing of it
    # @yieldparam source [String] a program in C
    # @yieldreturn [Boolean] whether it compiles and links
    # @return [Array<String>] flags for the compiler
    def flags(portable: ENV["ABACA_PORTABLE"] == "1", &links)
      return ["-D_POSIX_C_SOURCE=200809L"] if portable

      ["-D_GNU_SOURCE", *found(LINUX, &links).map { |name| "-DAB_HAS_#{name}" }]
    end

    # The same with a compiler that mkmf does not know.
    # @param command [Array<String>] the compiler, and its flags
    def flags_of(*command, **options)
      flags(**options) do |source|
        system(*command, "-w", "-xc", "-", "-o", File::NULL, in: text(source), err: File::NULL)
      end
    end

    private

    # Where all is there, one question is enough.
    def found(probes, &links)
      return probes.keys if links.call(program(probes.values))

      probes.select { |_, probe| links.call(program([probe])) }.keys
    end

    def program(probes)
      headers = probes.flat_map { |names,| names.split }.uniq.map { |name| "#include <#{name}>" }
      functions = probes.each_with_index.map { |(_, code), index| "void probe_#{index}(void) { #{code} }" }
      ["#undef _GNU_SOURCE", "#define _GNU_SOURCE 1", *headers, *functions, "int main(void) { return 0; }", ""].join("\n")
    end

    def text(source)
      reader, writer = IO.pipe
      writer << source
      writer.close
      reader
    end
  end
end
