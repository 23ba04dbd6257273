# frozen_string_literal: true

# An app that sends the file named "file" for /file, and "hello" for any other path.
module FileApp
  FILE = <<~RUBY
    class Whole
      def to_path = File.expand_path("file")
      def each = raise("not to be enumerated")
    end
    run lambda { |env|
      body = env["PATH_INFO"] == "/file" ? Whole.new : ["hello"]
      [200, { "content-type" => "application/octet-stream" }, body]
    }
  RUBY
  GET = "GET /file HTTP/1.1\r\nHost: a.test\r\n\r\n"
  HELLO = "GET / HTTP/1.1\r\nHost: a.test\r\n\r\n"
end
