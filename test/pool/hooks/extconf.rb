# frozen_string_literal: true

# Builds pool_hooks.so: the loop and the pool once more, under a module of its own, with a way to
# start jobs from Ruby. The product has none: its server starts jobs from C. bench/fibers measures it.
# An argument is the version of the scheduler's interface to build for, in place of this Ruby's.
require "mkmf"
require_relative "../../../ext/abaca/probes"
require_relative "../../../ext/abaca/units"

root = File.expand_path("../../../ext/abaca", __dir__)
have_header("ruby/io/buffer.h")
# The linker alone is asked, as in the extension's own.
%w[rb_fiber_new_storage rb_io_timeout rb_io_mode rb_io_path rb_io_closed_p rb_process_status_wait
   rb_postponed_job_preregister].each { |name| have_func(name) }
# rubocop:disable Style/GlobalVars
core = %w[base/mem base/addr base/json io/poller io/poller_epoll io/poller_kqueue io/poller_poll io/heap io/wheel
          io/clock io/thread io/blocking io/hosts io/storage lead/pulse lead/watcher]
core += Dir["{os,page,rb/scheduler,rb/pool}/*.c", base: root].map { |path| path.delete_suffix(".c") }
units = core.map { |name| "#{name}.c" }.group_by { |path| File.dirname(path) }
$srcs = [*units.map { |room, paths| Units.write(room, paths) }, "pool_hooks.c"]
$INCFLAGS = "#{$INCFLAGS} -I#{root}"
$defs.concat(Probes.flags { |source| try_link(source) })
$defs << "-DAB_SCHEDULER_INTERFACE=#{Integer(ARGV[0])}" if ARGV[0]
# Nobody measures one for another interface: without optimisation it compiles sooner.
$CFLAGS = "#{$CFLAGS} -std=c11 -fvisibility=hidden #{ARGV[0] ? "-O0" : "-O2 -g1"}"
$warnflags = "-Wall -Wextra -Wno-unused-parameter -Wno-declaration-after-statement"
create_makefile("pool_hooks") { |lines| [*lines, *Units.rules] }
# rubocop:enable Style/GlobalVars
