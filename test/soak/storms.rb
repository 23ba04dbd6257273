# frozen_string_literal: true

# bin/soak WORD: restarts, kills and signals for a minute, also behind proxies, and what the clients notice of them.
# Status 0: all was as it shall be.

require "optparse"
require_relative "storms/storm"
%w[restarts kills stops signals commands terms moments ends resets fronts].each do |word|
  require_relative "storms/#{word}"
end

options = { seconds: 60, seed: 1, rounds: nil, clients: 120 }
build = nil
parser = OptionParser.new do |words|
  words.banner = "usage: bin/soak WORD... [options]"
  Storms::Storm.all.each { |storm| words.separator("    #{storm.word.ljust(20)} #{storm.help}") }
  words.separator("")
  words.on("--seconds S", Float, "how long each of them (60)") { |seconds| options[:seconds] = seconds }
  words.on("--rounds N", Integer, "how many times, and not how long; then no time counts as too long") do |rounds|
    options[:rounds] = rounds
  end
  words.on("--clients N", Integer, "at once, one in six of them with a connection for each request (120)") do |clients|
    options[:clients] = clients
  end
  words.on("--seed N", Integer, "of its choices (1)") { |seed| options[:seed] = seed }
  words.on("--sanitized", "on the build of rake compile:sanitized") { build = "sanitized" }
  words.on("--races", "on that of rake compile:races") { build = "races" }
end
wanted = begin
  parser.parse(ARGV)
rescue OptionParser::ParseError => e
  abort "bin/soak: #{e.message}"
end
storms = wanted.map do |word|
  Storms::Storm.all.find { |storm| storm.word == word } or abort "bin/soak: no storm is called #{word}"
end
if build
  $LOAD_PATH.unshift(TestBuild.folder(build))
  Storms::Cluster.environment = TestBuild.environment(build, nil)
end
good = storms.map { |storm| storm.new(**options).run }
exit(good.all?)
