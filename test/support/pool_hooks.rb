# frozen_string_literal: true

require "fileutils"
require "open3"
require "rbconfig"

# Builds and loads test/pool/hooks, once for each version of Ruby and of the sources.
module PoolHooksBuild
  ROOT = File.expand_path("../..", __dir__)
  SOURCES = Dir[File.join(ROOT, "ext/abaca/{base,io,rb}/**/*.[ch]"), File.join(ROOT, "test/pool/hooks/*")].freeze

  def self.directory
    File.join(ROOT, "tmp/build", "pool-hooks-#{RbConfig::CONFIG.fetch('ruby_version')}")
  end

  def self.library
    File.join(directory, "pool_hooks.#{RbConfig::CONFIG.fetch('DLEXT')}")
  end

  def self.fresh?
    File.exist?(library) && SOURCES.all? { |source| File.mtime(source) <= File.mtime(library) }
  end

  def self.build
    FileUtils.rm_rf(directory)
    FileUtils.mkdir_p(directory)
    [[RbConfig.ruby, File.join(ROOT, "test/pool/hooks/extconf.rb")], %w[make -j2]].each do |command|
      output, status = Open3.capture2e(*command, chdir: directory)
      raise "#{command.join(' ')} failed:\n#{output}" unless status.success?
    end
  end

  def self.load
    build unless fresh?
    require library
  end
end

PoolHooksBuild.load
