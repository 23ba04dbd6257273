# frozen_string_literal: true

require "digest"

module Abaca
  class Dashboard
    # The files that the page is made of, and what a browser may do with it: nothing but run this script, use these
    # styles, and ask where it came from. Text never becomes HTML in it (Trusted Types).
    module Assets
      # In the order in which they need each other.
      SCRIPTS = %w[text units dom charts table detail acts live main].freeze

      class << self
        # @return [String] the HTML around all of it
        def frame = @frame ||= read("page.html")

        # @return [String]
        def style = @style ||= read("page.css")

        # @return [String]
        def script
          @script ||= "(() => {\n\"use strict\";\n#{SCRIPTS.map { |name| read("#{name}.js") }.join("\n")}})();"
        end

        # @return [String] the field Content-Security-Policy
        def policy
          @policy ||= ["default-src 'none'", "script-src #{digest(script)}", "style-src #{digest(style)}",
                       "connect-src 'self'", "img-src data:", "base-uri 'none'", "form-action 'none'",
                       "frame-ancestors 'none'", "require-trusted-types-for 'script'",
                       "trusted-types 'none'"].join("; ")
        end

        # @return [Hash{String => String}] header fields of the page
        def fields
          { "content-security-policy" => policy, "referrer-policy" => "no-referrer",
            "x-frame-options" => "DENY", "cross-origin-opener-policy" => "same-origin",
            "cross-origin-resource-policy" => "same-origin" }
        end

        private

        def read(name) = File.read(File.join(__dir__, name), encoding: "UTF-8")

        def digest(text) = "'sha256-#{Digest::SHA256.base64digest(text)}'"
      end
    end
  end
end
