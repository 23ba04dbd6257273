# frozen_string_literal: true

module Bench
  # The limit of open files.
  module Files
    module_function

    # Raises this process' limit as far as the kernel lets it.
    # @return [Integer] the limit from now on
    def raise_limit
      _, hard = Process.getrlimit(:NOFILE)
      Process.setrlimit(:NOFILE, hard, hard)
      hard
    end
  end
end
