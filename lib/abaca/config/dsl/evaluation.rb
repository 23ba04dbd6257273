# frozen_string_literal: true

module Abaca
  class Config
    class DSL
    end
  end
end

# Evaluates a configuration file. It stands outside all modules, so that a file which names `Settings` or `Log` gets
# what the app calls so, and nothing of ours.
Abaca::Config::DSL::EVALUATION = ->(dsl, source, path) { dsl.instance_eval(source, path, 1) }
