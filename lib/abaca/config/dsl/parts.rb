# frozen_string_literal: true

module Abaca
  class Config
    class DSL
      # Parts of a configuration: other files, and blocks that apply to one process or to several.
      module Parts
        # Evaluates another file.
        def load(path) = evaluate_file(path)

        # Evaluates a block with this object as self.
        def inject(&) = instance_eval(&)

        # For parts that apply to a single process only. The block runs after all files, when the number of workers is
        # known.
        def single(&block) = add_part(:single, block)

        # For parts that apply with workers only; otherwise like `single`.
        def cluster(&block) = add_part(:cluster, block)

        # Reads a setting.
        def get(key, default = nil)
          key = OTHER_NAMES.fetch(key, key)
          @options.fetch(key) { @given.fetch(key, default) }
        end

        # Runs the blocks of `single` or of `cluster`, after all files.
        #
        # @param workers [Integer] as many as there are to be
        # @raise [ConfigError] for a block that sets their number
        def evaluate_parts(workers)
          parts = @parts.select { |mode, _| mode == (workers.zero? ? :single : :cluster) }
          parts.each do |mode, block|
            before = @options[:workers]
            locate(block.source_location.to_a.first) { instance_eval(&block) }
            next if @options[:workers] == before

            raise ConfigError, "#{@places[:workers].first}: #{mode}: the number of workers is settled by now"
          end
        end

        private

        def add_part(mode, block)
          raise ArgumentError, "#{mode}: a block is needed" unless block

          @parts << [mode, block]
        end
      end
    end
  end
end
