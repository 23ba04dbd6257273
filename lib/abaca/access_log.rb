# frozen_string_literal: true

module Abaca
  # The access log: one line for each request that has come to the app, when its response is done.
  class AccessLog
    # Names of formats.
    NAMES = %i[puma common combined json].freeze

    # Most servers write no access log.
    autoload :Formats, File.expand_path("access_log/formats", __dir__)
    autoload :Request, File.expand_path("access_log/request", __dir__)

    class << self
      # @param format [Symbol, String, #call] a format's name; or what gets an AccessLog::Request and returns a line, or
      #   nil for none
      # @return [Symbol, #call]
      # @raise [ConfigError] for anything else
      def check(format)
        return format if format.respond_to?(:call)

        Config::Values.one_of(NAMES, format) ||
          raise(ConfigError, "access_log_format: #{NAMES.map(&:inspect).join(', ')} or a block is needed, " \
                             "not #{format.inspect}")
      end
    end

    # @param log [Log] takes the lines
    # @param format [Symbol, #call] as #check returns it
    # @param ignored [Array<String>] patterns of paths that have no line
    # @param worker [Integer, nil] the number of this process among others
    def initialize(log, format, ignored: [], worker: nil)
      @log = log
      @format = format
      @worker = worker
      @usual = [nil, nil, nil, worker].freeze
      @formats = Formats.new(pid: log.pid?)
      @own = format.respond_to?(:call)
      @ignored = ignored.empty? ? nil : /\A(?:#{ignored.map { |path| pattern(path) }.join('|')})\z/m
    end

    # @return [Boolean] whether a line says more of a request's time than how long it took, also if that was usual
    def times? = @own || @format == :json

    # Logs a request. A format that fails costs its line, and is reported in the log.
    #
    # @param env [Hash] the request's env
    # @param status [Integer, nil] nil if the app has taken over the connection
    # @param bytes [Integer] of the response's content
    # @param seconds [Float] that the request took
    # @param headers [Hash, nil] of the app's response
    # @param account [Array, nil] how it has ended, if its response is not complete; seconds by state, and the trace
    #   that it belongs to, or nil
    # @return [nil]
    def record(env, status, bytes, seconds, headers, account = nil)
      request = Request.new(env, status, bytes, seconds, headers, account ? [*account, @worker] : @usual)
      return if @ignored&.match?(request.path)

      return @log.access(@formats.public_send(@format, request), mark: @format == :puma) unless @own

      line = @format.call(request)
      @log.access(Log::Text.line(line)) if line
    rescue StandardError => e
      @log.error("a line of the access log failed: #{Log::Text.visible(e.message)[/.*/]} (#{e.class})")
    end

    private

    def pattern(path) = path.b.split("*", -1).map { |part| Regexp.escape(part) }.join(".*")
  end
end
