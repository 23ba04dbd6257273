# frozen_string_literal: true

module Abaca
  class Profile
    # Stacks that begin alike, joined: what a chart draws.
    class Tree
      # A frame with what it has called, as far as time was spent there.
      Node = Struct.new(:name, :seconds, :children) do
        # @param path [Array<String>] of further frames
        # @param time [Float]
        def add(path, time)
          path.inject(self) do |node, name|
            child = node.children[name] ||= Node.new(name, 0.0, {})
            child.seconds += time
            child
          end
        end
      end

      # A node and where it stands: `at` and `wide` are shares of the whole.
      Box = Struct.new(:name, :seconds, :depth, :at, :wide)

      # @param profile [Profile]
      def initialize(profile)
        @root = Node.new("all", profile.total, {})
        profile.merged.each { |stack| @root.add(stack.path, stack.seconds) }
      end

      # @param most [Integer] how many
      # @return [Array<Box>] the widest ones, each after the one that it stands in, the wider of two before the other
      def boxes(most)
        return [] unless @root.seconds.positive?

        narrowest = widths.max(most).last
        all = []
        place(@root, 0, 0.0) { |box| box.seconds >= narrowest && all.size < most && (all << box) }
        all
      end

      private

      def widths
        found = []
        place(@root, 0, 0.0) { |box| found << box.seconds }
        found
      end

      # Depth is that of a stack of frames, which has a limit. The block says whether to go on into a node.
      def place(node, depth, at, &block)
        return unless yield Box.new(node.name, node.seconds, depth, at, node.seconds / @root.seconds)

        node.children.each_value.sort_by { |child| -child.seconds }.each do |child|
          place(child, depth + 1, at, &block)
          at += child.seconds / @root.seconds
        end
      end
    end
  end
end
