# frozen_string_literal: true

require "fileutils"
require "json"

# Inputs for the fuzz targets, made of the cases in test/cases/http1.jsonl: each target gets the part
# of the octets that it is about. An input's first octets say how it is played (test/fuzz/fuzz.h).
module FuzzSeeds
  CASES = File.expand_path("../cases/http1.jsonl", __dir__)
  # Longer inputs slow the fuzzer down, and say no more.
  MOST = 2048
  WHOLE = "\x00".b
  # Three segments in turn, of 1, 7 and 41 octets.
  CUT = [3 << 1, 0, 6, 40].pack("C*")
  TIGHT = "\x01".b

  # Writes the inputs of each target into a folder of its name below `folder`.
  def self.write(folder)
    inputs.each do |target, octets|
      FileUtils.mkdir_p(File.join(folder, target))
      octets.uniq.each_with_index do |input, nth|
        File.binwrite(File.join(folder, target, format("case-%04d", nth)), input)
      end
    end
  end

  # The inputs by target.
  def self.inputs
    cases = File.foreach(CASES).map { |line| octets(JSON.parse(line)) }
    bodies = cases.filter_map { |raw| raw[/^transfer-encoding:.*?\r\n\r\n(.+)/mni, 1] }
    { "connection" => played(cases), "head" => played(cases),
      "chunk" => played(bodies),
      "trailer" => played(bodies.filter_map { |body| body[/(?:\A|\n)0+[^\r\n]*\r\n(.+)/mn, 1] }),
      "target" => targets(cases), "write" => fields(cases) }
  end

  # What the client of a case sends.
  def self.octets(the)
    text = the["raw"] || the["parts"].map { |part, times| part * times }.join
    text.encode(Encoding::ISO_8859_1).b
  end

  def self.played(inputs)
    inputs = inputs.map { |input| input[0, MOST] }
    [WHOLE, CUT, TIGHT].flat_map { |choice| inputs.map { |input| choice + input } }
  end

  # Request targets with the blank behind them, and what a Host field says.
  def self.targets(cases)
    texts = cases.filter_map { |raw| raw[/\A\S+ (\S+ )/n, 1] } + cases.filter_map { |raw| raw[/^host: *(.*?)\r$/ni, 1] }
    ["\x00\x00", "\x01\x04", "\x02\x08"].flat_map { |choice| texts.map { |text| choice.b + text[0, MOST] } }
  end

  def self.fields(cases)
    cases.flat_map { |raw| raw.scan(/^([^:\n]{1,60}): ?([^\n]*)/n) }.map do |name, value|
      [name.bytesize].pack("C") + name + value[0, MOST]
    end
  end
end
