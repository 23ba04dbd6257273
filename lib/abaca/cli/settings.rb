# frozen_string_literal: true

module Abaca
  class CLI
    # Flags that the table of settings has: operators change these from one start to the next. `max_queue` is
    # --max-queue; Config checks the values.
    module Settings
      private

      # @param help [Help, nil] has their texts
      def settings(words, help)
        Config::SECTIONS.each do |headline, rows|
          rows = rows.select(&:flag)
          next if rows.empty?

          words.separator("\n#{help.headline(headline, rows)}:") if help
          rows.each do |row|
            words.on(*row.option, *help&.lines(row)) do |given|
              @settings[row.name] = row.type.from_flag(given, @settings[row.name])
            end
          end
        end
      end
    end
  end
end
