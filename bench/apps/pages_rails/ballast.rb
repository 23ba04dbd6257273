# frozen_string_literal: true

module Bench
  # What an application of years has in memory beside its frameworks: classes, routes and translations.
  module Ballast
    CLASSES = 500
    METHODS = 40 # of each class
    ROUTES = 600
    TRANSLATIONS = 40_000

    module_function

    def load
      CLASSES.times { |nth| const_set(:"Service#{nth}", Class.new { class_eval(Ballast.methods_of(nth)) }) }
      words = (0...TRANSLATIONS).group_by { |nth| "page#{nth % 400}" }
      I18n.backend.store_translations(:en, words.transform_values do |numbers|
        numbers.to_h { |nth| ["text#{nth}", "A sentence of the user interface, number #{nth}"] }
      end)
    end

    # @param mapper [ActionDispatch::Routing::Mapper]
    def routes(mapper)
      ROUTES.times { |nth| mapper.resources("things#{nth}", controller: "bench/posts", only: %i[index show]) }
    end

    # @return [String] source
    def methods_of(nth)
      Array.new(METHODS) do |number|
        <<~CODE
          def call#{number}(order, options = {})
            total = order.lines.sum { |line| line.price * line.count }
            return :nothing if total.zero? && !options[:free]

            { total: total, tax: total * 0.#{nth}, label: "Order \#{order.id} of service #{nth}.#{number}" }
          end
        CODE
      end.join
    end
  end
end
