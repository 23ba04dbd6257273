# frozen_string_literal: true

require "fileutils"
require "open3"
require "rbconfig"

# Builds test/pool/hooks, once for each version of Ruby and of the sources, and loads it. With the version of an
# interface it is built for that version instead of this Ruby's.
module PoolHooksBuild
  ROOT = File.expand_path("../..", __dir__)
  SOURCES = Dir[File.join(ROOT, "ext/abaca/{base,os,page,io,lead,rb}/**/*.[ch]"),
                File.join(ROOT, "ext/abaca/probes.rb"), File.join(ROOT, "test/pool/hooks/*")].freeze

  def self.directory(*interface)
    File.join(ROOT, "tmp/build", ["pool-hooks", RbConfig::CONFIG.fetch("ruby_version"), *interface].join("-"))
  end

  # The library's path, for processes that load it themselves.
  def self.library(*interface)
    path = File.join(directory(*interface), "pool_hooks.#{RbConfig::CONFIG.fetch('DLEXT')}")
    build(*interface) unless File.exist?(path) && SOURCES.all? { |source| File.mtime(source) <= File.mtime(path) }
    path
  end

  def self.build(*interface)
    folder = directory(*interface)
    FileUtils.rm_rf(folder)
    FileUtils.mkdir_p(folder)
    [[RbConfig.ruby, File.join(ROOT, "test/pool/hooks/extconf.rb"), *interface.map(&:to_s)],
     %w[make -j2]].each do |command|
      output, status = Open3.capture2e(*command, chdir: folder)
      raise "#{command.join(' ')} failed:\n#{output}" unless status.success?
    end
  end

  def self.load = require(library)
end
