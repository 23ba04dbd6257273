# frozen_string_literal: true

require "tempfile"

# The stacks of processes that hang: of all threads, in Ruby by the process itself, in C by a debugger. A run of tests
# prints them when a deadline passes, since nobody can look later.
module Stacks
  # Seconds for the debugger, whose process may be huge.
  LIMIT = 60

  module_function

  # @param pids [Array<Integer>]
  # @return [String] a paragraph for each thread in C; the kernel's view where there is no debugger
  def of(pids)
    pids.map { |pid| "process #{pid} (#{command(pid)}):\n#{native(pid) || kernel(pid)}" }.join("\n")
  end

  # @return [String] the backtraces of all threads of this process
  def here
    Thread.list.map { |thread| "#{thread.inspect}\n  #{(thread.backtrace || ["ended"]).join("\n  ")}" }.join("\n")
  end

  # @return [Array<Integer>] this process and all its descendants
  def family(of = Process.pid)
    parents = Dir["/proc/[0-9]*/stat"].filter_map do |path|
      File.binread(path).match(/\A(\d+) \(.*\) [^Z] (\d+)/m)&.captures&.map(&:to_i)
    rescue SystemCallError
      nil # it has ended meanwhile
    end
    found = [of]
    found.each { |pid| parents.each { |child, parent| found << child if parent == pid } }
  end

  # @return [String] a file as UTF-8, whatever the locale is and whatever is in there
  def text(path) = File.read(path, encoding: Encoding::UTF_8).scrub

  # The debugger's output, or nil. It goes into a file: a pipe would fill up while the debugger has its reader stopped.
  def native(pid)
    Tempfile.create("stacks") do |file|
      system("timeout", "-k", "5", LIMIT.to_s, "gdb", "-p", pid.to_s, "-batch", "-nx", "-ex", "thread apply all bt 40",
             in: File::NULL, out: file, err: File::NULL)
      text(file.path)[/^Thread .*/m]
    end
  end

  def kernel(pid)
    Dir["/proc/#{pid}/task/*"].map do |task|
      "thread #{File.basename(task)}: #{read("#{task}/wchan")} #{read("#{task}/syscall")}"
    end.join("\n")
  end

  def command(pid) = read("/proc/#{pid}/cmdline").tr("\0", " ").strip[0, 200]

  def read(path)
    text(path).strip
  rescue SystemCallError
    "?"
  end
end
