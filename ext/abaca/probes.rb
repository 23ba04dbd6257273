# frozen_string_literal: true

require "open3"

# What a system has beyond POSIX 2008, and how the C code learns it: each probe is a piece of C that either compiles and
# links, or does not. extconf.rb asks them, and so does whoever compiles C without it (test/c_tests.rb); they become
# -DAB_HAS_NAME, for the rooms os and io alone.
#
# ABACA_PORTABLE=1 answers no to all of them, and hides from the headers of the system what is not POSIX 2008: the
# build that a system without any of it would have.
module Probes
  GNU = ["#undef _GNU_SOURCE", "#define _GNU_SOURCE 1"].freeze
  LINUX_ONLY = ["stddef.h", "\n#ifndef __linux__\n#error\n#endif\n"].freeze
  TCP = "sys/socket.h netinet/in.h netinet/tcp.h"

  # What Linux has; elsewhere some of it. Each is a piece of C by the headers that it needs.
  LINUX = {
    "EPOLL" => ["sys/epoll.h sys/eventfd.h unistd.h", "epoll_create1(EPOLLEXCLUSIVE); eventfd(0, 0); dup3(0, 0, 0);"],
    "EPOLL_PWAIT2" => ["sys/epoll.h", "epoll_pwait2(0, 0, 0, 0, 0);"],
    "WIPE_ON_FORK" => ["sys/mman.h", "madvise(0, 0, MADV_WIPEONFORK);"],
    "MEMFD" => ["sys/mman.h", "memfd_create(\"\", MFD_CLOEXEC | MFD_ALLOW_SEALING);"],
    "MKOSTEMP" => ["fcntl.h stdlib.h", "char path[7] = \"XXXXXX\"; mkostemp(path, O_CLOEXEC);"],
    "SEALS" => ["fcntl.h", "fcntl(0, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);"],
    "HUGE_PAGES" => ["sys/mman.h", "madvise(0, 0, MADV_NOHUGEPAGE);"],
    "FALLOCATE" => ["fcntl.h", "posix_fallocate(0, 0, 0);"],
    "SOCKET_FLAGS" => ["sys/socket.h", "socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);"],
    "EVENTFD" => ["sys/eventfd.h", "eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);"],
    "PPOLL" => ["poll.h", "ppoll(0, 0, 0, 0);"],
    "NOWAIT" => ["sys/uio.h", "preadv2(0, 0, 0, 0, RWF_NOWAIT); pwritev2(0, 0, 0, 0, RWF_NOWAIT);"],
    "MINCORE" => ["sys/mman.h", "unsigned char resident; mincore(0, 0, &resident);"],
    "FILE_SYSTEM_TYPES" => ["sys/vfs.h sys/sysmacros.h linux/magic.h",
                            "struct statfs s; fstatfs(0, &s); major(s.f_type == TMPFS_MAGIC);"],
    "DIRECT_FILES" => ["fcntl.h", "open(\"\", O_DIRECT);"],
    "THREAD_IDS" => ["unistd.h sys/syscall.h", "syscall(SYS_gettid);"],
    "PIDFD" => ["unistd.h sys/syscall.h", "syscall(SYS_pidfd_open, 0, 0);"],
    "SUBREAPER" => ["sys/prctl.h", "prctl(PR_SET_CHILD_SUBREAPER, 1UL, 0UL, 0UL, 0UL);"],
    "PROC" => LINUX_ONLY,
    "PRELOAD" => LINUX_ONLY, # others have it by another name, or nobody has tried
    "ZEROING_DONTNEED" => LINUX_ONLY, # others have a call of this name, and pages stay as they were
    "MALLOC_USABLE_SIZE" => ["malloc.h", "malloc_usable_size(0);"],
    "MEMMEM" => ["string.h", "memmem(0, 0, 0, 0);"],
    "EXPLICIT_BZERO" => ["string.h", "explicit_bzero(0, 0);"],
    "GETRANDOM" => ["sys/random.h", "getrandom(0, 0, GRND_NONBLOCK);"],
    "COARSE_CLOCK" => ["time.h", "struct timespec t; clock_gettime(CLOCK_REALTIME_COARSE, &t);"],
    "TIMEGM" => ["time.h", "timegm(0);"],
    "CONDITION_CLOCKS" => ["time.h pthread.h", "pthread_condattr_setclock(0, CLOCK_MONOTONIC);"],
    "ACCEPT4" => ["sys/socket.h", "accept4(0, 0, 0, SOCK_NONBLOCK | SOCK_CLOEXEC);"],
    "SOCKET_NUMBERS" => LINUX_ONLY, # others have 0 and 0 for all that are of TCP
    "SEQPACKET" => LINUX_ONLY, # others have the name, and no pair of such sockets
    "LONG_VECTORS" => ["limits.h", "char most[IOV_MAX >= 1024 ? 1 : -1]; (void)most;"],
    "MSG_MORE" => ["sys/socket.h", "send(0, 0, 0, MSG_MORE);"],
    # macOS has it, and waits in send all the same.
    "MSG_DONTWAIT" => ["sys/socket.h", "\n#ifdef __APPLE__\n#error\n#endif\nrecv(0, 0, 0, MSG_DONTWAIT);"],
    "CMSG_CLOEXEC" => ["sys/socket.h", "recvmsg(0, 0, MSG_CMSG_CLOEXEC);"],
    "SENDFILE" => ["sys/sendfile.h", "sendfile(0, 0, 0, 0);"],
    "UNSENT" => ["sys/ioctl.h linux/sockios.h", "ioctl(0, SIOCOUTQ, 0);"],
    "POLLRDHUP" => ["poll.h", "struct pollfd fd = { 0, POLLRDHUP, 0 }; poll(&fd, 1, 0);"],
    "PEERNAME" => ["sys/socket.h", "getsockopt(0, SOL_SOCKET, SO_PEERNAME, 0, 0);"],
    "ABSTRACT_NAMES" => LINUX_ONLY,
    "DEFER_ACCEPT" => [TCP, "setsockopt(0, IPPROTO_TCP, TCP_DEFER_ACCEPT, 0, 0);"],
    "UNSENT_LIMIT" => [TCP, "setsockopt(0, IPPROTO_TCP, TCP_NOTSENT_LOWAT, 0, 0);"],
    "USER_TIMEOUT" => [TCP, "setsockopt(0, IPPROTO_TCP, TCP_USER_TIMEOUT, 0, 0);"],
    "KEEPALIVE_TIMES" => [TCP, "setsockopt(0, IPPROTO_TCP, TCP_KEEPIDLE + TCP_KEEPINTVL, 0, 0);"],
    "SHARED_PORTS" => ["sys/socket.h", "setsockopt(0, SOL_SOCKET, SO_REUSEPORT, 0, 0);"],
    "SOCKET_DIAGNOSTICS" => ["sys/socket.h linux/netlink.h linux/sock_diag.h linux/inet_diag.h",
                             "struct inet_diag_req_v2 q = { SOCK_DIAG_BY_FAMILY }; (void)q;"]
  }.freeze

  # What others have in place of it.
  OTHERS = {
    "KQUEUE" => ["sys/types.h sys/event.h sys/time.h", "struct kevent e; kqueue(); kevent(0, &e, 1, &e, 1, 0);"]
  }.freeze

  private_constant :GNU, :LINUX_ONLY, :TCP

  class << self
    # @param portable [Boolean] as if there were nothing of it
    # @yieldparam source [String] a program in C
    # @yieldreturn [Boolean] whether it compiles and links
    # @return [Array<String>] flags for the compiler
    def flags(portable: ENV["ABACA_PORTABLE"] == "1", &links)
      return ["-D_POSIX_C_SOURCE=200809L"] if portable

      ["-D_GNU_SOURCE", *(found(LINUX, &links) + found(OTHERS, &links)).map { |name| "-DAB_HAS_#{name}" }]
    end

    # The same with a compiler that mkmf does not know.
    # @param command [Array<String>] the compiler, and its flags
    def flags_of(*command, **options)
      flags(**options) do |source|
        Open3.capture2e(*command, "-w", "-xc", "-", "-o", File::NULL, stdin_data: source).last.success?
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
      [*GNU, *headers, *functions, "int main(void) { return 0; }", ""].join("\n")
    end
  end
end
