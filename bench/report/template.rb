# frozen_string_literal: true

require "erb"

module Bench
  module Reporting
    # A page from a template beside this file.
    module Template
      # @param name [String] of a file
      # @param context [Object] whose methods the template may call
      # @return [String]
      def self.render(name, context)
        template = ERB.new(File.read(File.join(__dir__, name)), trim_mode: "-")
        template.filename = name
        template.result(context.instance_eval { binding })
      end
    end
  end
end
