# frozen_string_literal: true

require_relative "../log/text"
require_relative "request"

module Abaca
  class AccessLog
    # The lines of the access log by name; docs/logs.md describes each.
    class Formats
      Text = Log::Text
      VERSIONS = { "HTTP/1.1" => '"1.1"', "HTTP/1.0" => '"1.0"' }.freeze
      private_constant :Text, :VERSIONS

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
        target = query ? "#{request.path}?#{query}" : request.path
        result = request.status ? "#{request.status} #{request.bytes}" : "HIJACKED -1"
        add_account(head(request, target) << result << " " << format("%.4f", request.seconds), request)
      end

      # The common log format of Apache and nginx.
      #
      # @param request [Request]
      # @return [String]
      def common(request)
        bytes = request.bytes
        add_account(head(request, request.target) << "#{request.status || '-'} #{bytes.zero? ? '-' : bytes}", request)
      end

      # The same with `Referer` and `User-Agent`.
      #
      # @param request [Request]
      # @return [String]
      def combined(request)
        bytes = request.bytes
        line = head(request, request.target) << "#{request.status || '-'} #{bytes.zero? ? '-' : bytes} " \
                                                "\"#{quoted(request.referer)}\" \"#{quoted(request.user_agent)}\""
        add_account(line, request)
      end

      # One JSON object. Keys without a value are left out behind the first eight.
      #
      # @param request [Request]
      # @return [String]
      def json(request)
        line = "{\"time\":\"#{iso_time}\",\"client.address\":#{Text.json(request.client)}," \
               "\"http.request.method\":#{Text.json(request.method)},\"url.path\":#{Text.json(request.path)}," \
               "\"network.protocol.version\":#{version(request.protocol)}," \
               "\"http.response.status_code\":#{request.status || 'null'}," \
               "\"http.response.body.size\":#{request.bytes},\"duration_ms\":#{(request.seconds * 1000).round(3)}"
        add_rest(line, request)
        line << (@pid ? ",\"pid\":#{Process.pid}}" : "}")
      end

      private

      # Up to the status.
      def head(request, target)
        text = "#{request.method} #{target} #{request.protocol}"
        "#{Text.field(request.client)} - #{Text.field(request.user)} [#{clock}] \"#{Text.escape(text)}\" "
      end

      def quoted(value) = value ? Text.escape(value) : "-"

      def version(protocol) = VERSIONS[protocol] || Text.json(protocol)

      def add_rest(line, request)
        add(line, ',"url.query":', request.query)
        add(line, ',"server.address":', request.host)
        add(line, ',"user.name":', request.user)
        add(line, ',"user_agent.original":', request.user_agent)
        add(line, ',"request_id":', request.request_id)
        referer = request.referer
        line << ',"http.request.header.referer":[' << Text.json(referer) << "]" if referer
        request.times&.each { |state, time| line << ",\"#{state}_ms\":#{milliseconds(time)}" }
        line << ",\"worker\":#{request.worker}" if request.worker
        add(line, ',"trace_id":', request.trace_id)
        line << ",\"end\":\"#{request.ending}\""
      end

      # Where the time of a slow request went, and how one has ended that failed: `key=value`, behind the usual line.
      def add_account(line, request)
        return line if request.times.nil? && request.ending == :done

        request.times&.each { |state, time| line << " #{state}_ms=#{milliseconds(time)}" }
        line << " worker=#{request.worker}" if request.worker
        trace = request.trace_id
        line << " trace_id=#{trace}" if trace
        line << " end=#{request.ending}"
      end

      def milliseconds(seconds) = (seconds * 1000).round(3)

      def add(line, key, value)
        line << key << Text.json(value) if value
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
        now = Process.clock_gettime(Process::CLOCK_REALTIME, :millisecond)
        second, text = @utc
        unless second == now / 1000
          second = now / 1000
          text = Time.at(second).utc.strftime("%Y-%m-%dT%H:%M:%S.").freeze
          @utc = [second, text].freeze
        end
        "#{text}#{(1000 + (now % 1000)).to_s[1, 3]}Z"
      end
    end
  end
end
