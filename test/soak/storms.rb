# frozen_string_literal: true

# bin/soak WORD: restarts, kills and signals for a minute, and what the clients of the server notice of them. Status 0:
# all was as it shall be.

require "optparse"
require_relative "storms/storm"
%w[restarts kills stops signals commands terms ends].each { |word| require_relative "storms/#{word}" }

options = { seconds: 60, seed: 1 }
parser = OptionParser.new do |words|
  words.banner = "usage: bin/soak WORD... [options]"
  Storms::Storm.all.each { |storm| words.separator("    #{storm.word.ljust(20)} #{storm.help}") }
  words.separator("")
  words.on("--seconds S", Float, "how long each of them (60)") { |seconds| options[:seconds] = seconds }
  words.on("--seed N", Integer, "of its choices (1)") { |seed| options[:seed] = seed }
end
wanted = begin
  parser.parse(ARGV)
rescue OptionParser::ParseError => e
  abort "bin/soak: #{e.message}"
end
storms = wanted.map do |word|
  Storms::Storm.all.find { |storm| storm.word == word } or abort "bin/soak: no storm is called #{word}"
end
good = storms.map { |storm| storm.new(**options).run }
exit(good.all?)
