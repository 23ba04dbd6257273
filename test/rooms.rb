# frozen_string_literal: true

require "tsort"

# The rooms of the extension, and who includes whom in them (docs/architecture.md). A room is a folder;
# it may include its own headers and those of the rooms that it may know, and Ruby's only in rb/. A .c file
# and the header of its name are one file here: what includes the header uses that file. Files may use
# each other in a circle, but only within a room, and only a few of them.
class Rooms
  include TSort

  # The most files of a circle.
  CIRCLE = 6
  INCLUDE = /^\s*#\s*include\s*(?:"([^"]+)"|<(ruby[^>]*)>)/

  # @param root [String] the extension's folder
  # @param known [Hash{String => Array<String>}] the rooms that each room may know
  def initialize(root, known)
    @known = known
    paths = Dir["*/**/*.[ch]", base: root].sort
    @includes = paths.to_h { |path| [path, File.read(File.join(root, path)).scan(INCLUDE)] }
    @uses = Hash.new { |uses, file| uses[file] = [] }
    @includes.each { |path, found| @uses[file_of(path)].concat(found.filter_map { |ours,| ours && file_of(ours) }) }
  end

  # @return [Array<String>] what is wrong, a line for each
  def mistakes = wrong_ways + wrong_circles

  private

  def wrong_ways
    @includes.flat_map do |path, found|
      room = File.dirname(path)
      known = [room, *@known.fetch(room)]
      found.filter_map do |ours, ruby|
        allowed = ours ? known.include?(File.dirname(ours)) : room.start_with?("rb")
        "#{path} must not include #{ours || ruby}" unless allowed
      end
    end
  end

  def wrong_circles
    strongly_connected_components.select { |files| files.size > 1 }.filter_map do |files|
      if files.map { |file| File.dirname(file) }.uniq.size > 1
        "a circle crosses rooms: #{files.sort.join(' ')}"
      elsif files.size > CIRCLE
        "a circle of #{files.size} files, more than #{CIRCLE}: #{files.sort.join(' ')}"
      end
    end
  end

  def file_of(path) = path.sub(/\.[ch]\z/, "")

  def tsort_each_node(&) = @uses.keys.each(&)

  def tsort_each_child(file, &) = @uses.fetch(file, []).uniq.each(&)
end
