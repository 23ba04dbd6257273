# frozen_string_literal: true

require "fileutils"
require "open3"
require "tmpdir"
require_relative "waits"

# A PostgreSQL server of the tests' own, with Debian's programs, on a unix socket.
class Postgres
  PROGRAMS = Dir["/usr/lib/postgresql/*/bin"].max
  # It does not run as root; the package makes this user.
  USER = "postgres"

  # Why there is none on this machine; nil where there is one.
  def self.missing = ("PostgreSQL is not installed" unless PROGRAMS)

  def initialize
    @dir = File.realpath(Dir.mktmpdir("abaca"))
    FileUtils.chown(USER, nil, @dir) if root?
    run("initdb", "--pgdata", data, "--auth", "trust", "--username", USER, "--encoding", "UTF8", "--no-locale",
        "--no-sync")
    @pid = Process.spawn(*as_user, "#{PROGRAMS}/postgres", "-D", data, "-k", @dir, "-c", "listen_addresses=",
                         "-c", "fsync=off", in: File::NULL, %i[out err] => File.join(@dir, "log"))
    Waits.eventually(within: 30) { ready? } or raise "PostgreSQL does not start:\n#{log}"
  end

  # @return [String] a URL of a database, which need not exist
  def url(database) = "postgresql:///#{database}?host=#{@dir}&username=#{USER}"

  # Ends it, whoever is connected.
  def stop
    Process.kill(:QUIT, @pid)
    Process.wait(@pid)
  ensure
    FileUtils.remove_entry(@dir)
  end

  private

  def root? = Process.uid.zero?

  def data = File.join(@dir, "data")

  def log = File.read(File.join(@dir, "log"))

  def as_user = root? ? ["setpriv", "--reuid=#{USER}", "--regid=#{USER}", "--clear-groups"] : []

  def ready? = system(*as_user, "#{PROGRAMS}/pg_isready", "-q", "-h", @dir)

  def run(program, *arguments)
    output, status = Open3.capture2e(*as_user, "#{PROGRAMS}/#{program}", *arguments, chdir: @dir)
    raise "#{program}: #{output}" unless status.success?
  end
end
