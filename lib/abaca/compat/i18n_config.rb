# frozen_string_literal: true

module Abaca
  module Compat
    # i18n 1.14.8, and 1.15 before Ruby 3.2, keep the locale in a thread variable: on fibers a request answers in the
    # language of another one. 1.14.7 kept it in Thread.current[], which belongs to the fiber, and so does this.
    module I18nConfig
      # Replaces two methods of the gem.
      module ByFiber
        def config = Thread.current[:i18n_config] ||= ::I18n::Config.new

        def config=(value)
          Thread.current[:i18n_config] = value
        end
      end
      private_constant :ByFiber

      def self.adapt(config, _log)
        ::I18n.extend(ByFiber) if Compat.fibers?(config) && Compat.shared? { ::I18n.config }
        nil
      end
    end
  end
end
