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
        def single(&block) = @abaca.add_part(:single, block)

        # For parts that apply with workers only; otherwise like `single`.
        def cluster(&block) = @abaca.add_part(:cluster, block)

        # Reads a setting.
        def get(key, default = nil) = @abaca.get(key, default)

        # Runs the blocks of `single` or of `cluster`, after all files.
        #
        # @param workers [Integer] as many as there are to be
        # @raise [ConfigError] for a block that sets their number
        def evaluate_parts(workers)
          parts = @abaca.parts.select { |mode, _| mode == (workers.zero? ? :single : :cluster) }
          parts.each do |mode, block|
            before = @abaca.settings[:workers]
            @abaca.locate(block.source_location.to_a.first) { instance_eval(&block) }
            next if @abaca.settings[:workers] == before

            raise ConfigError, "#{@abaca.places[:workers].first}: #{mode}: the number of workers is settled by now"
          end
        end
      end
    end
  end
end
