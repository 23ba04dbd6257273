# frozen_string_literal: true

require "tsort"

# The rooms of the extension, and what uses what in them (docs/architecture.md). A room is a folder; it may include its
# own headers and those of the rooms that it may know, and Ruby's only in rb/. Files may use each other in a circle, but
# only within a room, and only a few of them: by what they include, where a .c file and the header of its name are one
# file, and by the functions that they name, wherever those are declared.
class Rooms
  # The most files of a circle.
  CIRCLE = 6
  INCLUDE = /^\s*#\s*include\s*(?:"([^"]+)"|<(ruby[^>]*)>)/
  TEXT = %r{/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"}m
  # A function's definition, unless it is static: it begins a line, and a brace follows its parameters.
  FUNCTION = /^(?!static\b|typedef\b)[A-Za-z_][\w *]*?\b(\w+)\([^;{}]*\)\s*\{/

  # Files, and those that each uses.
  Graph = Struct.new(:uses) do
    include TSort

    def tsort_each_node(&) = uses.each_key(&)
    def tsort_each_child(file, &) = uses.fetch(file, []).each(&)

    def circles = strongly_connected_components.select { |files| files.size > 1 }.map(&:sort)
  end

  # @param root [String] the extension's folder
  # @param known [Hash{String => Array<String>}] the rooms that each room may know
  def initialize(root, known)
    @known = known
    @texts = Dir["*/**/*.[ch]", base: root].sort.to_h { |path| [path, File.read(File.join(root, path))] }
    @includes = @texts.transform_values { |text| text.scan(INCLUDE) }
  end

  # @return [Array<String>] what is wrong, a line for each
  def mistakes = wrong_ways + [includes, calls].flat_map { |graph| wrong_circles(graph) }.uniq

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

  def wrong_circles(graph)
    graph.circles.filter_map do |files|
      if files.map { |file| File.dirname(file) }.uniq.size > 1
        "a circle crosses rooms: #{files.join(' ')}"
      elsif files.size > CIRCLE
        "a circle of #{files.size} files, more than #{CIRCLE}: #{files.join(' ')}"
      end
    end
  end

  def includes
    graph(@includes) { |found| found.filter_map { |ours,| ours && file_of(ours) } }
  end

  def calls
    code = @texts.select { |path,| path.end_with?(".c") }.transform_values { |text| text.gsub(TEXT, " ") }
    home = code.flat_map { |path, text| text.scan(FUNCTION).map { |name,| [name, file_of(path)] } }.to_h
    graph(code) { |text| home.values_at(*text.scan(/\w+/).uniq).compact }
  end

  # files: anything by path; the block finds what a file uses in it.
  def graph(files)
    uses = Hash.new { |hash, file| hash[file] = [] }
    files.each { |path, content| uses[file_of(path)] |= yield(content) }
    Graph.new(uses)
  end

  def file_of(path) = path.sub(/\.[ch]\z/, "")
end
