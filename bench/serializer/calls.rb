# frozen_string_literal: true

require "stringio"

module Bench
  # The ways to collect output in Ruby, and the loops that are measured. The loops are made from source text, so that
  # each target has a straight one of its own and no call or block stands in between.
  module Calls
    SHORT = ("s" * 64).freeze
    LONG = ("l" * 16_384).freeze
    RUN = 64 # short writes between two hand-overs
    RUN_OF_SHORT = (SHORT * RUN).freeze
    NOWHERE = File.new(File::NULL, "wb").tap { |file| file.sync = true }
    PIECES = 8 # long ones
    ROOM = PIECES * LONG.bytesize
    # Ruby 3.1's names for them.
    SET, GET = IO::Buffer.method_defined?(:set_string) ? %w[set_string get_string] : %w[copy to_str]

    # Ruby text about the local variable `o`: to make one; to add SHORT and LONG (LONG without a copy where that is
    # known); to show the collected output to its taker, and be ready for more; the same by a call for loops of
    # drivers; to write it to NOWHERE; and to append it to `all`.
    Target = Struct.new(:name, :make, :write, :schedule, :hand_over, :serialize, :sent, :content, keyword_init: true)

    TARGETS = [
      Target.new(name: "nothing", make: "o = nil", write: "", schedule: "", hand_over: "",
                 sent: "NOWHERE.syswrite(RUN_OF_SHORT)", content: "all << SHORT << LONG"),
      Target.new(name: "Outbox", make: "o = Abaca::Outbox.new; list = []", write: "o.write(SHORT)",
                 schedule: "o.schedule(LONG)", hand_over: "list = o.operation(list); o.shift(o.pending_bytes)",
                 serialize: "o.serialize { o.pending_bytes }", sent: "o.write_to(NOWHERE)", content: "all << o.to_s"),
      Target.new(name: "String", make: "o = String.new", write: "o << SHORT", schedule: "o << LONG",
                 hand_over: "o.bytesize; o.clear", sent: "NOWHERE.syswrite(o); o.clear", content: "all << o"),
      Target.new(name: "StringIO", make: "o = StringIO.new(String.new)", write: "o.write(SHORT)",
                 schedule: "o.write(LONG)", hand_over: "o.string.bytesize; o.truncate(0); o.rewind",
                 sent: "NOWHERE.syswrite(o.string); o.truncate(0); o.rewind", content: "all << o.string"),
      Target.new(name: "IO::Buffer", make: "o = IO::Buffer.new(ROOM); at = 0", write: "o.#{SET}(SHORT, at); at += 64",
                 schedule: "o.#{SET}(LONG, at); at += 16_384", hand_over: "at = 0",
                 sent: "NOWHERE.syswrite(o.#{GET}(0, at)); at = 0", content: "all << o.#{GET}(0, at)"),
      Target.new(name: "Array", make: "o = []", write: "o << SHORT", schedule: "o << LONG",
                 hand_over: "o.join.bytesize; o.clear", sent: "NOWHERE.syswrite(o.join); o.clear",
                 content: "all << o.join")
    ].to_h { |target| [target.name, target] }.freeze

    # `before` and `turn` are text for a target: what stands before the loop, and one turn of it, which
    # does `operations`. `times` is how often it goes round.
    Row = Struct.new(:name, :title, :operations, :times, :before, :turn, keyword_init: true)

    REPEAT = "k = 0; while k < %d; %s; k += 1; end; %s"

    ROWS = [
      Row.new(name: "first", title: "a write of 64 bytes, #{RUN} of them into a new object and on to /dev/null",
              operations: RUN, times: 20_000, before: ->(_) { "" },
              turn: ->(t) { "#{t.make}; #{format(REPEAT, RUN, t.write, t.sent)}" }),
      Row.new(name: "again", title: "the same, with the object that was emptied before", operations: RUN, times: 20_000,
              before: lambda(&:make), turn: ->(t) { format(REPEAT, RUN, t.write, t.sent) }),
      Row.new(name: "shown", title: "the same, but only shown and dropped", operations: RUN, times: 20_000,
              before: lambda(&:make), turn: ->(t) { format(REPEAT, RUN, t.write, t.hand_over) }),
      Row.new(name: "schedule", title: "a frozen String of 16 KB, #{PIECES} of them", operations: PIECES, times: 20_000,
              before: lambda(&:make), turn: ->(t) { format(REPEAT, PIECES, t.schedule, t.hand_over) }),
      Row.new(name: "cycle", title: "64 bytes written and handed over", operations: 1, times: 500_000,
              before: lambda(&:make), turn: ->(t) { "#{t.write}; #{t.hand_over}" }),
      Row.new(name: "serialize", title: "the same by the call for drivers", operations: 1, times: 500_000,
              before: lambda(&:make), turn: ->(t) { t.serialize && "#{t.write}; #{t.serialize}" })
    ].to_h { |row| [row.name, row] }.freeze

    module_function

    # @return [Proc, nil] that runs the loop this many times; nil if the target has no such call
    def loop_of(row, target)
      turn = row.turn.call(target) or return
      code = "->(times) { #{row.before.call(target)}; i = 0; while i < times; #{turn}; i += 1; end }"
      eval(code, binding, __FILE__, __LINE__) # rubocop:disable Security/Eval
    end

    # @raise [RuntimeError] when the target loses or invents bytes
    def check(target)
      code = "all = String.new; #{target.make}; #{target.write}; #{target.schedule}; #{target.content}; all"
      content = eval(code, binding, __FILE__, __LINE__) # rubocop:disable Security/Eval
      raise "#{target.name} holds other bytes than were written" unless content == SHORT + LONG
    end
  end
end
