# frozen_string_literal: true

# Units of translation: a room is compiled in one piece, since half of what a compiler does for a small file is to read
# headers, ruby.h above all. So the names that a room's files define for themselves must differ.
module Units
  # @param paths [Array<String>] files below a folder of headers
  # @return [String] the unit that includes them
  def self.text(paths) = paths.sort.map { |path| "#include \"#{path}\"\n" }.join

  # Writes one into the current folder.
  #
  # @param name [String]
  # @param paths [Array<String>] of its files, below a folder of headers
  # @return [String] the name of the file
  def self.write(name, paths)
    "unit_#{name.tr("/", "_")}.c".tap { |unit| File.write(unit, text(paths)) }
  end

  # What to add to the Makefile: the compiler writes down which headers a unit includes, with an empty rule for each,
  # so that a header which is gone stops nothing. These rules come before mkmf's.
  #
  # @return [Array<String>] lines
  def self.rules = [".DEFAULT_GOAL := all\n", "CFLAGS += -MMD -MP\n", "-include $(wildcard *.d)\n"]
end
