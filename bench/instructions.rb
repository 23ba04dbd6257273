# frozen_string_literal: true

# Instructions of a request, as valgrind's callgrind counts them: the same each time to within a few in a thousand,
# whatever else the machine does. `ruby bench/instructions.rb` tells what the slot of a page costs: counters, state
# clock and row of hello world; with `--mode thread`, on threads.
require "optparse"
require "rbconfig"
require "socket"
require "tmpdir"

module Bench
  # Runs a server under callgrind for few and for many requests; the difference is what requests cost.
  class Instructions
    CONNECTIONS = 16
    FEW = 1_600
    MANY = 8_000
    REQUEST = "GET /hello HTTP/1.1\r\nHost: a.test\r\nUser-Agent: bench\r\nAccept: */*\r\n\r\n"
    SERVER = File.expand_path("instructions/server.rb", __dir__)
    LIB = File.expand_path("../lib", __dir__)

    # @param mode [String] "fiber" or "thread"
    def initialize(mode: "fiber")
      @mode = mode
    end

    # @return [Boolean] whether callgrind is there
    def self.possible? = system("valgrind", "--version", out: File::NULL, err: File::NULL)

    # @param kind [String] "slot" or "none"
    # @return [Float] instructions of one request
    def of_request(kind)
      (count(kind, MANY) - count(kind, FEW)) / (MANY - FEW).to_f
    end

    private

    # Instructions of a server that answers so many requests.
    def count(kind, requests)
      Dir.mktmpdir do |folder|
        IO.popen(command(kind, folder), "r+", err: File.join(folder, "err")) do |server|
          drive(Integer(server.gets), requests)
          server.close_write
          server.read
        end
        File.read(File.join(folder, "err"))[/Collected\s*:\s*(\d+)/, 1].to_i
      end
    end

    def command(kind, folder)
      ["valgrind", "--tool=callgrind", "--callgrind-out-file=#{folder}/out", RbConfig.ruby, "-I", LIB, SERVER, kind,
       @mode]
    end

    # Each connection has one request at a time; all of them are sent before the first answer is read.
    def drive(port, requests)
      sockets = Array.new(CONNECTIONS) { TCPSocket.new("127.0.0.1", port) }
      (requests / CONNECTIONS).times do
        sockets.each { |socket| socket.write(REQUEST) }
        sockets.each { |socket| read_answer(socket) } # rubocop:disable Style/CombinableLoops -- after all were sent
      end
    ensure
      sockets&.each(&:close)
    end

    def read_answer(socket)
      answer = +""
      answer << socket.readpartial(4096) until answer.end_with?("world!\n")
    end
  end
end

if $PROGRAM_NAME == __FILE__
  abort "valgrind is needed" unless Bench::Instructions.possible?
  options = {}
  OptionParser.new { |words| words.on("--mode MODE", %w[fiber thread]) }.parse!(into: options)
  plain, shown = %w[none slot].map { |kind| Bench::Instructions.new(**options).of_request(kind) }
  more = (shown / plain * 100) - 100
  puts "#{plain.round} instructions without a slot, #{shown.round} with one: #{more.round(2)} % more"
end
