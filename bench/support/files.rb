# frozen_string_literal: true

module Bench
  # The limit of open files.
  module Files
    module_function

    # Raises this process' limit as far as the kernel lets it.
    # @param wanted [Integer] more than that only root may have
    # @return [Integer] the limit from now on
    def raise_limit(wanted = 0)
      _, hard = Process.getrlimit(:NOFILE)
      limit = [wanted, hard].max
      Process.setrlimit(:NOFILE, limit, limit)
      limit
    rescue Errno::EPERM
      Process.setrlimit(:NOFILE, hard, hard)
      hard
    end
  end
end
