# frozen_string_literal: true

# An export that should not be held in memory: a million lines of CSV from a database (simulated here). They are
# written into an Abaca::Outbox, whose bytes go to the socket without a copy. The block waits when the client is
# slow, so it takes the same memory for ten lines as for ten million.
#
#   bin/serve examples/export/config.ru
#   curl -s http://127.0.0.1:9292/export.csv?rows=1000000 | tail -n 1

HEADER = "id,name,amount,paid\n"
NAMES = %w[Abelia Borage Chicory Dahlia Elder Fennel Gentian Hyssop].freeze

# A row of the table, as a cursor would give it.
row = ->(id) { [id, NAMES[id % NAMES.size], (id * 7919) % 100_000, id.even?] }

# The possible values are known, so nothing has to be quoted.
put = lambda do |out, (id, name, cents, paid)|
  out << id << "," << name << "," << (cents / 100) << "."
  out << "0" if cents % 100 < 10
  out << (cents % 100) << "," << (paid ? "yes" : "no") << "\n"
end

headers = { "content-type" => "text/csv; charset=utf-8", "content-disposition" => 'attachment; filename="export.csv"' }

run(lambda do |env|
  return [404, { "content-type" => "text/plain" }, ["Try /export.csv?rows=1000\n"]] if env["PATH_INFO"] != "/export.csv"

  rows = env["QUERY_STRING"][/\Arows=(\d{1,8})\z/, 1]&.to_i || 1_000_000
  body = env["abaca.outbox"].new do |out|
    out << HEADER
    1.upto(rows) { |id| put.call(out, row.call(id)) }
  end
  [200, headers.dup, body]
end)
