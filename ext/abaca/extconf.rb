# frozen_string_literal: true

# Builds abaca/abaca.so out of all rooms, and the small library beside it (preloaded.rb).
#
# Switches, all from the environment:
#   ABACA_WERROR=1    warnings are errors (our own builds)
#   ABACA_SANITIZE=1  AddressSanitizer and UndefinedBehaviorSanitizer; =thread: ThreadSanitizer
#   ABACA_DEBUG=1     -O0 -g3
#   ABACA_WITHOUT_HTTP2=1  as if libnghttp2 were not there
#   ABACA_WITHOUT_TLS=1    as if libssl were not there
#   ABACA_PORTABLE=1  as if nothing were there that POSIX 2008 lacks (probes.rb)
# ABACA_SANITIZE and ABACA_DEBUG define AB_POISON: code that still uses a finished exchange fails.
require "etc"
require "io/console"
require "rbconfig"
require_relative "../../lib/abaca/packages"
require_relative "preloaded"
require_relative "probes"
require_relative "units"

# What is missing where the gem is installed, in one line each: mkmf's own messages are a page.
def need(what, package)
  $makefile_created = true # or mkmf adds that page at the end
  abort "abaca: #{what} (#{Abaca::Packages.hint(package)})"
end

def command?(words)
  name = words.to_s.split.first.to_s
  return File.executable?(name) if name.include?("/")

  ENV.fetch("PATH", "").split(File::PATH_SEPARATOR).any? { |folder| File.executable?(File.join(folder, name)) }
end

compiler = ENV.fetch("CC", RbConfig::CONFIG["CC"])
need("a C compiler is needed; #{compiler} is not there", "build-essential") unless command?(compiler)
need("make is needed", "build-essential") unless command?(ENV.fetch("MAKE", "make"))
unless File.exist?(File.join(RbConfig::CONFIG["rubyhdrdir"].to_s, "ruby.h"))
  need("the headers of this Ruby are needed; ruby.h is not there", "ruby-dev")
end
require "mkmf"

def links?
  try_link("#include <stdlib.h>\nint main(void) { return EXIT_SUCCESS; }")
rescue RuntimeError
  false
end
need("#{compiler} makes no program; mkmf.log says why: the C library's headers are needed", "libc6-dev") unless links?

# `gem install` shows nothing meanwhile, so it gets a line; our own builds print what they do.
IO.console&.puts("abaca: compiling the native part, up to a minute of CPU time") unless ENV.key?("ABACA_WERROR")

have_header("ruby/io/buffer.h")
# The linker alone is asked, since ruby.h takes longer than all else: what Ruby exports, it declares.
%w[rb_fiber_new_storage rb_io_timeout rb_process_status_wait rb_io_mode rb_io_path rb_io_closed_p
   rb_postponed_job_preregister rb_fiber_scheduler_blocking_operation_extract rb_internal_thread_add_event_hook
   rb_internal_thread_specific_key_create rb_hash_tbl].each { |name| have_func(name) }
# Ruby 4.0 has both, the second one with other arguments.
have_func("rb_io_blocking_region") || have_func("rb_thread_io_blocking_region")
have_func("rb_hash_new_capa", "ruby.h")

# HTTP/2 is optional: without the library there is only HTTP/1.
http2 = ENV["ABACA_WITHOUT_HTTP2"] != "1" && system("pkg-config --atleast-version=1.52 libnghttp2", err: File::NULL) &&
        pkg_config("libnghttp2")
$defs << "-DAB_HAVE_HTTP2" if http2

# TLS is optional too. Two libraries in a process would clash: where this Ruby has an openssl, it must be that one's,
# which need not be the system's. --with-openssl-dir names another place.
def libssl_of_ruby
  require "openssl"
  return File.read("/proc/self/maps")[%r{/\S*/libssl\.so[.\d]*$}] unless RUBY_PLATFORM.include?("darwin")

  IO.popen(["otool", "-L", *$LOADED_FEATURES.grep(/openssl\.bundle\z/)], &:read)[%r{/\S*/libssl[.\d]*\.dylib}]
rescue LoadError, SystemCallError
  nil
end

# Adds the flags for the library in another place than the system's. Its headers are beside it, or there is no TLS.
def use_libssl(path)
  folder = File.dirname(path)
  headers = [folder, File.dirname(folder)].map { |base| File.join(base, "include") }
                                          .find { |base| File.exist?(File.join(base, "openssl/ssl.h")) }
  return false unless headers

  $INCFLAGS = "-I#{headers} #{$INCFLAGS}"
  $libs = [path, File.join(folder, File.basename(path).sub("ssl", "crypto")), $libs].join(" ")
  $LDFLAGS = "#{$LDFLAGS} -Wl,-rpath,#{folder}"
  true
end

def find_libssl
  return have_library("ssl") && have_library("crypto") if dir_config("openssl").any?

  ours = libssl_of_ruby
  return use_libssl(ours) unless ours.nil? || ours.start_with?("/usr/lib", "/lib")
  return true if system("pkg-config --exists libssl", err: File::NULL) && pkg_config("libssl")

  have_library("ssl") && have_library("crypto")
end

tls = ENV["ABACA_WITHOUT_TLS"] != "1" && find_libssl && have_func("SSL_get0_peer_certificate", "openssl/ssl.h")
$defs << "-DAB_HAVE_TLS" if tls

rooms = %w[base os page http http1 http2 outbox tls io lead engine
           rb rb/scheduler rb/pool rb/outbox rb/page rb/rack rb/run rb/server]
$srcs = rooms.map { |room| Units.write(room, Dir["#{room}/*.c", base: __dir__]) }
$INCFLAGS = "#{$INCFLAGS} -I$(srcdir)"
$defs.concat(Probes.flags { |source| try_link(source) })

# Not in $warnflags, which a Ruby with its distribution's CFLAGS leaves out.
$CFLAGS = "#{$CFLAGS} -std=c11 -fvisibility=hidden -Wall -Wextra -Wno-unused-parameter"
$warnflags = ""
$CFLAGS << " -Werror" if ENV["ABACA_WERROR"] == "1"
# Where variables are takes a seventh of the time, so our own builds have functions and lines for backtraces (-g1), and
# an installed gem has none. Under sanitizers, -O2 would take half as long again, and save tests little.
debug = ENV["ABACA_DEBUG"] == "1"
sanitizers = { "1" => "address,undefined", "thread" => "thread" }[ENV.fetch("ABACA_SANITIZE", nil)]
level = if debug then "-O0 -g3"
        elsif sanitizers then "-O1 -g1"
        else ENV["ABACA_WERROR"] == "1" ? "-O2 -g1" : "-O2 -g0"
        end
$CFLAGS << " #{level}"
$defs << "-DAB_POISON" if debug || sanitizers
if sanitizers
  $CFLAGS << " -fsanitize=#{sanitizers} -fno-omit-frame-pointer"
  $LDFLAGS = "#{$LDFLAGS} -fsanitize=#{sanitizers}"
end
if sanitizers == "thread"
  # It knows neither fences nor fibers: without the entries and exits of functions it keeps no stack that a switch
  # between fibers would spoil.
  gcc = "-Wno-tsan -Wno-maybe-uninitialized --param tsan-instrument-func-entry-exit=0"
  $CFLAGS << " #{try_cflags(gcc) ? gcc : '-mllvm -tsan-instrument-func-entry-exit=0'}"
elsif sanitizers
  $CFLAGS << " -fno-sanitize-recover=undefined"
  # Ruby leaves frames of a fiber by longjmp, which does not clear the marks around their variables on
  # a stack that the sanitizer does not know: it would report the next use of that part. The heap is
  # still checked, and the C tests check the stack.
  gcc = "--param asan-stack=0 --param asan-instrument-allocas=0"
  $CFLAGS << " #{try_cflags(gcc) ? gcc : '-mllvm -asan-stack=0'}"
end

# GCC clears structures of a few hundred bytes with `rep stos`, which needs 40 ns to start, three times in every
# request; the C library's memset needs 2.
libcall = "-mstringop-strategy=libcall"
$CFLAGS << " #{libcall}" if try_cflags(libcall)

# Debian's Ruby enables link-time optimisation, which compiles everything once more when linking: half as much CPU time
# again, to save 3 of 100 instructions of a pipelined request, and less of any other.
[$CFLAGS, $LDFLAGS, $DLDFLAGS].each { |flags| flags.gsub!(/-flto\S*|-f(?:no-)?fat-lto-objects/, "") }

# RubyGems runs make without -j. Ruby's own headers are not POSIX.
additions = ["MAKEFLAGS += -j#{Etc.nprocessors}\n", *Units.rules]
additions << "unit_rb%.o: DEFS += -D_GNU_SOURCE\n" if ENV["ABACA_PORTABLE"] == "1"
$cleanfiles.push("*.d", Preloaded::FILE)
create_makefile("abaca/abaca") { |lines| [*lines, *additions] }
Preloaded.add_rules if $defs.include?("-DAB_HAS_PRELOAD")
