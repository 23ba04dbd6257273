# frozen_string_literal: true

require_relative "../log/text"

module Abaca
  class AccessLog
    # The lines of the access log by name; docs/logs.md describes each.
    class Formats
      NAMES = %i[puma common combined json].freeze
      Text = Log::Text
      private_constant :Text

      # @param pid [Boolean] whether JSON objects have the process's id
      def initialize(pid: false)
        @pid = pid
        @local = @utc = nil
      end

      # Puma's: the common format with the seconds that the request took.
      #
      # @param request [Request]
      # @return [String]
      def puma(request)
        query = request.query
        line = "#{request.method} #{request.path}#{"?#{query}" if query} #{request.protocol}"
        end_of_line = request.status ? "#{request.status} #{request.bytes}" : "HIJACKED -1"
        "#{head(request)} \"#{Text.escape(line)}\" #{end_of_line} #{format('%.4f', request.seconds)}"
      end

      # The common log format of Apache and nginx.
      #
      # @param request [Request]
      # @return [String]
      def common(request)
        line = "#{request.method} #{request.target} #{request.protocol}"
        bytes = request.bytes
        "#{head(request)} \"#{Text.escape(line)}\" #{request.status || '-'} #{bytes.zero? ? '-' : bytes}"
      end

      # The same with `Referer` and `User-Agent`.
      #
      # @param request [Request]
      # @return [String]
      def combined(request)
        "#{common(request)} \"#{quoted(request.referer)}\" \"#{quoted(request.user_agent)}\""
      end

      # One JSON object. Keys without a value are left out behind the first eight.
      #
      # @param request [Request]
      # @return [String]
      def json(request)
        "{\"time\":\"#{iso_time}\",\"client.address\":#{Text.json(request.client)}," \
          "\"http.request.method\":#{Text.json(request.method)},\"url.path\":#{Text.json(request.path)}," \
          "\"network.protocol.version\":#{Text.json(request.protocol.to_s.delete_prefix('HTTP/'))}," \
          "\"http.response.status_code\":#{request.status || 'null'},\"http.response.body.size\":#{request.bytes}," \
          "\"duration_ms\":#{(request.seconds * 1000).round(3)}#{json_rest(request)}}"
      end

      private

      def head(request) = "#{Text.field(request.client)} - #{Text.field(request.user)} [#{clock}]"

      def quoted(value) = value ? Text.escape(value) : "-"

      def json_rest(request)
        referer = request.referer
        { "url.query" => request.query, "server.address" => request.host, "user.name" => request.user,
          "user_agent.original" => request.user_agent, "request_id" => request.request_id }
          .filter_map { |key, value| ",\"#{key}\":#{Text.json(value)}" if value }
          .push((",\"http.request.header.referer\":[#{Text.json(referer)}]" if referer),
                (",\"pid\":#{Process.pid}" if @pid)).join
      end

      # strftime costs more than the rest of a line, so its result serves for a whole second.
      def clock
        now = Process.clock_gettime(Process::CLOCK_REALTIME, :second)
        second, text = @local
        return text if second == now

        text = Time.at(now).strftime("%d/%b/%Y:%H:%M:%S %z").freeze
        @local = [now, text].freeze
        text
      end

      def iso_time
        second, milliseconds = Process.clock_gettime(Process::CLOCK_REALTIME, :millisecond).divmod(1000)
        known, text = @utc
        unless known == second
          text = Time.at(second).utc.strftime("%Y-%m-%dT%H:%M:%S.").freeze
          @utc = [second, text].freeze
        end
        "#{text}#{milliseconds.to_s.rjust(3, '0')}Z"
      end
    end
  end
end
