# frozen_string_literal: true

# Found only where the names of Puma have been asked for.
require_relative "../../../puma"
