# frozen_string_literal: true

# Half of what the compiler does for a file that includes ruby.h is to read it. So it does that once, and such files
# begin with what has come of it. Where it knows no such thing, or cannot use it, they begin with ruby.h itself.
module Precompiled
  # What `make clean` removes.
  FILE = "ruby.h.gch"

  # Adds the rules to the Makefile that mkmf has written.
  #
  # @param sources [Array<String>] names of the files that include ruby.h
  # @param extension [String] of objects
  def self.add_rules(sources, extension)
    File.write("Makefile", <<~MAKE, mode: "a")

      RUBY_OBJS = #{sources.map { |name| name.sub(/c\z/, extension) }.join(' ')}
      $(RUBY_OBJS): CFLAGS += -include ruby.h
      $(RUBY_OBJS): | #{FILE}
      #{FILE}: CFLAGS := $(CFLAGS)
      #{FILE}: COMPILE = $(CC) $(INCFLAGS) $(CPPFLAGS) $(CFLAGS)
      #{FILE}: $(ruby_headers)
      \t$(ECHO) precompiling $(hdrdir)/ruby.h
      \t$(Q) ($(COMPILE) -x c-header -o $@ $(hdrdir)/ruby.h && \\
      \t  $(COMPILE) -include ruby.h -Winvalid-pch -Werror -fsyntax-only -x c /dev/null) 2>/dev/null || $(RM) $@
    MAKE
  end
end
