# frozen_string_literal: true

# Pages that compute, without a framework. /page/N and /burn/N read N times 200 rows of a table that is larger than a
# processor's caches, and build a text of some of them: the same work, however long it takes. /light does nothing.

ROWS = 400_000
TABLE = Array.new(ROWS) { |i| [i, "row #{i}"].freeze }.freeze
PAGE_MAX = 100_000 # bytes

page = lambda do |count|
  text = +""
  nth = rand(ROWS)
  (count * 200).times do
    nth = ((nth * 1_103_515_245) + 12_345) % ROWS
    number, name = TABLE[nth]
    text << name if number.even?
    text = +"" if text.bytesize > PAGE_MAX
  end
  text
end

run(lambda do |env|
  body =
    case env["PATH_INFO"]
    when "/light" then "ok"
    when %r{\A/(?:page|burn)/(\d+)\z} then page.call(Integer(Regexp.last_match(1)))
    end
  text = { "content-type" => "text/plain" }
  body ? [200, text.merge("content-length" => body.bytesize.to_s), [body]] : [404, text, []]
end)
