# frozen_string_literal: true

module Abaca
  class Launcher
    # Sockets that listen already when the program starts, because the one before it has opened them. They come as
    # variables ABACA_INHERIT_0 and so on, one for each place: numbers of descriptors with commas between them, a mark
    # (`own`: the file of the socket is ours to remove; `activated`: another program has opened it; `-`), and the URL.
    class Inherited
      NAME = /\AABACA_INHERIT_\d+\z/
      VALUE = /\A(\d{1,9}(?:,\d{1,9})*) (own|activated|-) (.+)\z/m
      private_constant :NAME, :VALUE

      # A place: its URL as in the configuration, its descriptors, its mark, and the name that systemd gave it.
      Place = Struct.new(:url, :fds, :mark, :name) do
        def own? = mark == "own"
        def activated? = mark == "activated"

        # Removes the socket's file, if it is ours.
        def remove_file
          path = url.delete_prefix("unix://")
          File.delete(path) if own? && File.socket?(path)
        rescue SystemCallError
          nil
        end
      end

      # @param places [Array<Place>]
      # @return [Hash{String => String}] variables for the next program
      def self.variables(places)
        places.each_with_index.to_h do |place, i|
          ["ABACA_INHERIT_#{i}", "#{place.fds.join(',')} #{place.mark} #{place.url}"]
        end
      end

      # @param env [Hash{String => String}, ENV] loses the variables
      def initialize(env)
        names = env.keys.grep(NAME).sort_by { |name| Integer(name[/\d+/], 10) }
        @places = names.filter_map do |name|
          fds, mark, url = VALUE.match(env.delete(name))&.captures
          Place.new(url, fds.split(",").map { |fd| Integer(fd, 10) }, mark) if url
        end
        @places.concat(FromPuma.places(env))
        @before = @places.dup
        @places.concat(Activated.places(env))
      end

      # @param place [Place]
      # @return [Boolean] whether an earlier program of this process had it
      def before?(place) = @before.include?(place)

      # Removes the files of the sockets that are ours: nobody listens any more.
      def remove_files = @before.each(&:remove_file)

      # @return [Array<Place>] those that were activated, and are not taken yet
      def activated = @places.select(&:activated?)

      # @param url [String]
      # @return [Place, nil] now the caller's
      def take(url)
        i = @places.index { |place| place.url == url }
        i && @places.delete_at(i)
      end

      # Closes the rest.
      #
      # @return [Array<Place>]
      def close
        @places.each { |place| place.fds.each { |fd| IO.for_fd(fd).close } }.tap { @places = [] }
      rescue SystemCallError, ArgumentError
        @places
      end
    end
  end
end
