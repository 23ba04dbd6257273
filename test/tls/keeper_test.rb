# frozen_string_literal: true

require "test_helper"
require "abaca"
require "support/certificates"
require "support/waits"

# What becomes of certificates while a server runs: read anew, given to workers, warned about.
class TLSKeeperTest < Minitest::Test
  include Waits

  DAY = 86_400

  def setup
    super
    skip "this build has no TLS" unless Abaca::TLS_LIBRARY
    @folder = Dir.mktmpdir
    @made = Certificates.new(@folder)
    @pair = @made.make("a", names: ["a.test"])
    @output = StringIO.new
    @log = Abaca::Log.new(@output)
    @keepers = []
  end

  def teardown
    @keepers&.each(&:close)
    @log&.release
    FileUtils.rm_rf(@folder) if @folder
    super
  end

  def keeper(*urls, pause: 60, shared: false, **settings)
    urls = ["ssl://127.0.0.1:0?cert=a.pem&key=a.key"] if urls.empty?
    binds = urls.map { |url| Abaca::Config::Bind.parse(url) }
    config = Abaca::Config.new({ binds:, **settings })
    Abaca::TLS::Keeper.new(config, @log, folder: @folder, pause:).tap do |one|
      @keepers << one
      one.read(shared:)
    end
  end

  def log
    @log.flush(20)
    @output.string
  end

  def serials(keeper) = keeper.contexts.map { |context| context.certificates.first[:serial].to_i(16) }

  def test_reload
    pairs = []
    one = keeper
    one.watch { |*pair| pairs << pair }
    old = one.contexts
    renewed = @made.renew(@pair)
    one.reload
    assert_equal [[old.first, one.contexts.first]], pairs
    assert_equal [renewed.cert.serial.to_i], serials(one)
    assert_match(/^\* Certificates reloaded: a\.test$/, log)
  end

  # All that are good stay as they are where one is not.
  def test_a_fault_changes_nothing
    other = @made.make("b", names: ["b.test"])
    one = keeper("ssl://127.0.0.1:0?cert=a.pem&key=a.key", "ssl://127.0.0.1:0?cert=b.pem&key=b.key")
    before = serials(one)
    @made.renew(@pair)
    File.write(other.cert_path, "nonsense")
    assert_match(/b\.pem/, assert_raises(Abaca::ConfigError) { one.reload }.message)
    assert_equal before, serials(one)
    assert_match(/^abaca: the certificates stay as they are: .*b\.pem.*\n\z/, log)
    assert_equal 1, log.lines.size
  end

  def test_files_that_change_are_read
    one = keeper(pause: 0.05)
    one.watch
    renewed = @made.renew(@pair)
    assert(eventually { serials(one) == [renewed.cert.serial.to_i] })
    before = faults # while only one of the two files was new, perhaps
    File.write("#{@pair.cert_path}.new", "nonsense")
    File.rename("#{@pair.cert_path}.new", @pair.cert_path)
    assert(eventually { faults > before })
    sleep 0.3
    assert_equal before + 1, faults, "one line for one change"
    assert_equal [renewed.cert.serial.to_i], serials(one)
  end

  # A key may get its rights, or a command its password, while no file changes.
  def test_what_failed_is_tried_again
    locked = @made.make("locked", names: ["a.test"], password: "sesame")
    said = File.join(@folder, "said")
    File.write(said, "sesame")
    one = keeper("ssl://127.0.0.1:0?cert=locked.pem&key=locked.key&key_password_command=cat%20#{said}", pause: 0.05)
    one.watch
    File.delete(said)
    File.utime(Time.now, Time.now + 1, locked.cert_path)
    assert(eventually { faults == 1 })
    before = one.contexts
    sleep 0.3
    assert_equal 1, faults, "one line for one fault"
    File.write(said, "sesame")
    assert(eventually { one.contexts != before })
  end

  # Those that expire are the ones whose successors fail.
  def test_a_fault_does_not_hide_what_expires
    one = keeper(pause: 0.05)
    File.write(@pair.key_path, "nonsense")
    expiry = one.instance_variable_get(:@expiry)
    looks = 0
    expiry.define_singleton_method(:look) { |*| looks += 1 }
    one.watch
    assert(eventually { faults == 1 })
    before = looks
    assert(eventually { looks > before + 2 })
  end

  # A signal may come while the process ends.
  def test_asked_while_it_closes
    one = keeper
    one.watch
    one.instance_variable_get(:@reader).close
    assert_nil one.ask
  end

  def faults = log.scan("the certificates stay as they are").size

  def test_asked_by_a_signal
    one = keeper
    one.watch
    renewed = @made.renew(@pair)
    before = Signal.trap("USR1") { one.ask }
    Process.kill(:USR1, Process.pid)
    assert(eventually { serials(one) == [renewed.cert.serial.to_i] })
  ensure
    Signal.trap("USR1", before) if before
  end

  # A worker has no right to read the files, and finds what the master has read.
  def test_workers_follow
    one = keeper(shared: true)
    reader, writer = IO.pipe
    pid = fork do
      one.forget
      pairs = []
      until pairs.any?
        sleep 0.02
        one.follow { |*pair| pairs << pair }
      end
      writer.puts(serials(one).inspect)
      one.follow { |*pair| pairs << pair }
      writer.puts(pairs.size)
    ensure
      writer.close
      exit!(0)
    end
    writer.close
    renewed = @made.renew(@pair)
    one.reload
    assert reader.wait_readable(20)
    assert_equal ["[#{renewed.cert.serial}]\n", "1\n"], reader.readlines
  ensure
    Process.wait(pid) if pid
    reader&.close
  end

  # Who is forked later has the latest from the beginning.
  def test_a_later_worker_has_nothing_to_do
    one = keeper(shared: true)
    @made.renew(@pair)
    one.reload
    calls = 0
    one.follow { calls += 1 }
    assert_equal 0, calls
  end

  def test_a_shelf_that_is_being_written
    shelf = Abaca::TLS::Shelf.new
    assert_equal 0, shelf.version
    shelf.put([1] * 1000)
    shelf.put("short")
    assert_equal [4, "short"], shelf.take
    file = shelf.instance_variable_get(:@file)
    file.pwrite([5, 0].pack("Q<Q<"), 0)
    writer = Thread.new do
      sleep 0.1
      shelf.put(%w[new])
    end
    assert_equal [6, %w[new]], shelf.take
  ensure
    writer&.join
    shelf&.close
  end

  def test_figures_and_warnings
    @made.renew(@pair, days: 2.5)
    one = keeper
    figure, = one.figures
    assert_equal [["a.test"], 2], figure.values_at(:names, :days)
    assert_match(/\A\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ\z/, figure[:not_after])
    assert_match(/^abaca: the certificate .*a\.pem \(a\.test\) expires in 2 days$/, log)
  end

  def test_a_warning_a_day
    now = Time.at((Time.now.to_i / DAY * DAY) + (DAY / 2)) # noon: the looks of a day are on that day
    @made.renew(@pair, days: 20.25 + ((now - Time.now) / DAY)) # in the evening, after all looks of a day
    contexts = keeper.contexts
    expiry = Abaca::TLS::Expiry.new(@log)
    lines = (0..22).flat_map do |day|
      before = log.lines.size
      3.times { |nth| expiry.look(contexts, now + (day * DAY) + (nth * 600)) }
      log.lines[before..]
    end
    assert_empty lines.grep(/expires in (1[4-9]|2\d) days/)
    assert_equal 1, lines.grep(/warning: .* expires in 13 days/).size
    assert_equal 1, lines.grep(/warning: .* expires in 3 days/).size
    assert_equal 1, lines.grep(/abaca: the .* expires in 2 days/).size
    assert_equal 1, lines.grep(/abaca: the .* expires in 1 day$/).size
    assert_operator lines.grep(/has expired/).size, :>=, 2
    assert_operator lines.size, :<=, 23
  end

  def test_secrets
    drawn = Abaca::TLS::Secret.new(nil)
    assert_equal [32, drawn.bytes], [drawn.bytes.bytesize, drawn.bytes]
    refute_equal drawn.bytes, Abaca::TLS::Secret.new(nil).bytes
    path = File.join(@folder, "ticket.key")
    File.binwrite(path, "\x00\xff" * 40)
    one, other = Array.new(2) { Abaca::TLS::Secret.new("ticket.key", folder: @folder) }
    assert_equal [32, one.bytes], [one.bytes.bytesize, other.bytes]
    File.binwrite(path, "x" * 40)
    refute_equal drawn.bytes, one.bytes
    File.binwrite(path, "short")
    one = Abaca::TLS::Secret.new("ticket.key", folder: @folder, place: "puma.rb:3")
    assert_equal "puma.rb:3: tls_ticket_key_file ticket.key: it has 5 bytes, and needs at least 32 random ones",
                 assert_raises(Abaca::ConfigError) { one.bytes }.message
    endless = Abaca::TLS::Secret.new("/dev/zero")
    assert_match(/dev.zero: it has more than \d+ bytes/, assert_raises(Abaca::ConfigError) { endless.bytes }.message)
    File.delete(path)
    assert_match(/No such file/, assert_raises(Abaca::ConfigError) { one.bytes }.message)
  end
end
