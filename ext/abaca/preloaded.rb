# frozen_string_literal: true

# The small library that a hot restart preloads (held_signals.c says what for).
module Preloaded
  FILE = "abaca_held.so"

  # Adds the rules to the Makefile that mkmf has written.
  def self.add_rules
    File.write("Makefile", <<~MAKE, mode: "a")

      all: #{FILE}
      #{FILE}: $(srcdir)/held_signals.c
      \t$(ECHO) linking shared-object #{FILE}
      \t$(Q) $(CC) $(ARCH_FLAG) -shared -fPIC -O2 -std=c11 -D_POSIX_C_SOURCE=200809L -Wall -Wextra -o $@ $<
      install-so: install-preloaded
      install-preloaded: #{FILE} $(TIMESTAMP_DIR)/.sitearchdir.-.abaca.time
      \t$(INSTALL_PROG) #{FILE} $(RUBYARCHDIR)
    MAKE
  end
end
