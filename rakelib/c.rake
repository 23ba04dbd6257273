# frozen_string_literal: true

# The C tests as other machines would play them: on a system that has nothing but POSIX 2008, and (bin/matrix) with
# another C library, on another processor. There is no AddressSanitizer in the last two.

# The kernel's headers, without any of the other C library's: those would be found beside them.
def kernel_headers(folder)
  machine = "/usr/include/#{RbConfig::CONFIG.fetch('host_cpu')}-linux-gnu"
  FileUtils.mkdir_p(folder)
  { "linux" => "/usr/include", "asm-generic" => "/usr/include", "asm" => machine }.each do |name, place|
    link = File.join(folder, name)
    File.symlink(File.join(place, name), link) unless File.symlink?(link)
  end
  folder
end

# Rooms that ask what there is of the system, and the one that all of it meets in.
UNLIKE = %w[os io lead page engine].freeze

namespace :c do
  desc "The same for the rooms as they are built where there is nothing but POSIX 2008; BRIEF=1 asks those that differ"
  task :portable do
    build = C_BUILD.dup.tap { |one| one.portable = true }
    next run_c_tests(c_tests(build, variant: "portable")) unless ENV["BRIEF"] == "1"

    build.flags = [*C_FLAGS, "-O0"] # in short without sanitizers, since compiling takes the time
    files = ENV["FILES"]&.split || Dir[File.join(C_TESTS, "{#{UNLIKE.join(',')}}/*_test.c")].sort
    run_c_tests(c_tests(build, variant: "portable-brief"), files)
  end

  desc "The same with musl as the C library; MUSL_PACKAGES has its libraries, as pkg-config finds them"
  task :musl do
    headers = kernel_headers(File.join(ROOT, "tmp/kernel-headers"))
    packages = ENV.fetch("MUSL_PACKAGES", "/usr/local/musl/lib/pkgconfig")
    build = CTests::Build.new(command: %w[musl-gcc], flags: [*C_FLAGS, "-idirafter", headers], packages: packages,
                              without: C_BUILD.without, deadline: C_BUILD.deadline)
    run_c_tests(c_tests(build, variant: "musl"))
  end

  # On one processor: with more of them on x86, qemu lets an `ldar` pass an earlier `stlr`, which arm64 forbids,
  # and a test of two threads waits forever.
  desc "The same for arm64, under qemu and UBSan"
  task :arm64 do
    processor = File.read("/proc/self/status")[/^Cpus_allowed_list:\s*(\d+)/, 1]
    runner = ["taskset", "-c", processor, "qemu-aarch64"]
    sanitizer = %w[-fsanitize=undefined -fno-sanitize-recover=undefined -static-libubsan]
    flags = [*C_FLAGS, "-DAB_TEST_EMULATED", *sanitizer]
    build = CTests::Build.new(command: %w[aarch64-linux-gnu-gcc], flags: flags, runner: runner,
                              packages: "/usr/lib/aarch64-linux-gnu/pkgconfig", without: C_BUILD.without,
                              deadline: 3 * C_BUILD.deadline)
    run_c_tests(c_tests(build, variant: "arm64"))
  end
end
