# frozen_string_literal: true

# For tests of what a platform may have to do without (docs/platforms.md).
module PlatformNeeds
  # Skips the test where the platform lacks this part.
  def need_platform(part)
    require "abaca"
    here = Abaca::Platform.here
    skip here.lack(part) unless here.has?(part)
  end
end
