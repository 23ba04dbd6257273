# frozen_string_literal: true

# The rows of a slot as another process sees them: read from the bytes of the memory, by the places that its head names
# (ext/abaca/page/layout.h), without any code of Abaca's.
class PageRows
  STATES = %i[proxy head body queue run sched gvl db cache http io pool lock sleep dns disk process offload require
              drain gc].freeze
  MODES = %i[queued fiber thread guest].freeze
  PHASES = %i[called answers answered].freeze
  ROW = 960
  AREAS = { app: 1, queued: 2 }.freeze
  private_constant :AREAS

  # @param pid [Integer] of a process that has the page
  # @param slot [Integer]
  def initialize(pid, slot: 0)
    @file = File.open(newest_page("/proc/#{pid}/fd"), "rb")
    _version, head, size, = bytes(8, 16).unpack("L4")
    @base = head + (slot * size)
  end

  # Rows of requests that are there now.
  def used(area = :app) = all(area).select { |row| row[:used] }

  # Rows that were ever taken, with what the last request has left in them.
  def all(area = :app)
    offset, count = bytes(128 + (16 * AREAS.fetch(area)), 8).unpack("L2")
    mark = bytes(@base + (area == :app ? 896 : 1280), 4).unpack1("L")
    Array.new([mark, count].min) { |i| row(bytes(@base + offset + (i * ROW), ROW)) }
  end

  def close = @file.close

  private

  # A child has what its parent has not collected yet, too: pages of tests before.
  def newest_page(folder)
    Dir.children(folder).map { |name| "#{folder}/#{name}" }.max_by { |link| made_at(link) }
  end

  # @return [Integer] by the monotonic clock; -1: it is no page
  def made_at(link)
    File.readlink(link).include?("abaca-page") ? File.binread(link, 8, 56).unpack1("Q") : -1
  rescue Errno::ENOENT
    -1 # closed meanwhile
  end

  def bytes(from, count) = @file.pread(count, from)

  def row(bytes)
    _seq, state, used, mode, phase, since, id, began, taken = bytes.unpack("LC4Q4")
    _touched, _route, _place, _children, status, _method, path_len = bytes.unpack("@40L2S3C2")
    sums = STATES.zip(bytes.unpack("@64Q21")).to_h.transform_values { |nsec| nsec / 1e9 }
    peer = bytes.unpack("@252C4x12SC")
    { state: STATES[state], used: used == 1, mode: MODES[mode], phase: PHASES[phase], id:, status:,
      taken: taken.positive?, path: bytes[320, path_len], sums: sums.select { |_, time| time.positive? },
      waits_for: peer.last == 4 ? "#{peer[0, 4].join('.')}:#{peer[4]}" : nil,
      total: sums.values.sum, duration: (since - began) / 1e9, age: (monotonic - began) / 1e9 }
  end

  def monotonic = Process.clock_gettime(Process::CLOCK_MONOTONIC, :nanosecond)
end
