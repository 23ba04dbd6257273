# frozen_string_literal: true

# Fuzz targets (test/fuzz): each replays its corpus and its cases in test/cases, with any compiler; if clang has
# libFuzzer, it continues with generated inputs. bin/fuzz is the long form.
require "open3"
require "rake"
require_relative "../test/at_once"

# Builds and runs the targets.
module Fuzz
  extend Rake::FileUtilsExt

  HOME = File.join(ROOT, "test/fuzz")
  TMP = File.join(ROOT, "tmp/fuzz")
  # Without its library there is no HTTP/2 to fuzz, and no TLS.
  ABSENT = [*("http2" if http2_flags(:cflags).empty?), *("tls" if tls_flags(:cflags).empty?)].freeze
  TARGETS = (Dir[File.join(HOME, "*_fuzz.c")].map { |path| File.basename(path, "_fuzz.c") } - ABSENT).sort.freeze
  ROOMS = "{base,os,http,http1,http2,outbox,tls}"
  SANITIZERS = "address,undefined"
  FLAGS = %w[-std=c11 -Wall -Wextra -Werror -g1 -O1 -fno-omit-frame-pointer
             -fno-sanitize-recover=undefined].concat(optional_flags(:cflags)).freeze
  INCLUDES = %w[test/c test/c/http1 test/c/http2].flat_map { |folder| ["-I", File.join(ROOT, folder)] }
                                                 .unshift("-I", EXT).freeze
  MAX_SIZE = 4096

  # True when there is a clang with libFuzzer.
  def self.libfuzzer?
    return @libfuzzer unless @libfuzzer.nil?

    FileUtils.mkdir_p(TMP)
    probe = "int LLVMFuzzerTestOneInput(const char *d, long n) { return d == 0 && n == 1; }"
    @libfuzzer = Open3.capture2e("clang", "-fsanitize=fuzzer,#{SANITIZERS}", "-xc", "-", "-o", "#{TMP}/probe",
                                 stdin_data: probe).last.success?
  rescue Errno::ENOENT
    @libfuzzer = false
  end

  # Compiles a target if it is older than its sources; `kind` is :replay or :libfuzzer. Returns its program.
  def self.build(target, kind)
    objects = objects(kind)
    sources = [File.join(HOME, "#{target}_fuzz.c"), *(File.join(HOME, "replay.c") if kind == :replay)]
    program = File.join(TMP, kind.to_s, target)
    return program if fresh?(program, [*sources, *objects, *headers])

    sh(*compiler(kind), *flags, "-fsanitize=#{'fuzzer,' if kind == :libfuzzer}#{SANITIZERS}", *INCLUDES,
       *sources, *objects, *optional_flags(:libs), "-o", program, verbose: false)
    program
  end

  # What replays is of the same compiler as the C tests: it has their objects.
  def self.objects(kind)
    FileUtils.mkdir_p(File.join(TMP, kind.to_s))
    @objects ||= Hash.new { |made, one| made[one] = one == :replay ? [c_tests(C_BUILD).archive] : compile_rooms(one) }
    @objects[kind]
  end

  def self.compile_rooms(kind)
    AtOnce.map(Dir[File.join(EXT, ROOMS, "*.c")].sort) do |source|
      object = File.join(TMP, kind.to_s, "#{File.basename(source, '.c')}.o")
      unless fresh?(object, [source, *headers])
        sh(*compiler(kind), *flags, "-fsanitize=#{'fuzzer-no-link,' if kind == :libfuzzer}#{SANITIZERS}",
           *INCLUDES, "-c", source, "-o", object, verbose: false)
      end
      object
    end
  end

  def self.flags = FLAGS + LIBRARIES.system_flags

  def self.compiler(kind)
    [kind == :libfuzzer ? "clang" : ENV.fetch("CC", "gcc")]
  end

  def self.headers
    Dir[File.join(EXT, ROOMS, "*.h"), File.join(HOME, "*.h"), File.join(ROOT, "test/c/{http1,http2,tls}/*.h")]
  end

  def self.fresh?(product, sources)
    File.exist?(product) && sources.all? { |source| File.mtime(source) < File.mtime(product) }
  end

  # The folders that a target starts from: what is in the repository, and what the cases have.
  def self.seeds(target)
    [File.join(HOME, "corpus", target), File.join(TMP, "seeds", target)].select { |folder| File.directory?(folder) }
  end

  # Plays the seeds without libFuzzer; returns how many there were.
  def self.replay(target)
    output, status = Open3.capture2e(build(target, :replay), *seeds(target))
    abort "fuzz target #{target} fails:\n#{output.lines.last(60).join}" unless status.success?
    Integer(output[/^(\d+) inputs$/, 1])
  end

  # Fuzzes for `seconds`. What is found new stays in tmp/fuzz/corpus, what fails in tmp/fuzz/crashes.
  # Returns the line of libFuzzer's that sums it up, or nil when something failed.
  def self.explore(target, seconds)
    found, crashes = %w[corpus crashes].map { |name| File.join(TMP, name, target) }
    [found, crashes].each { |folder| FileUtils.mkdir_p(folder) }
    log = File.join(TMP, "#{target}.log")
    system(build(target, :libfuzzer), found, *seeds(target), "-max_total_time=#{seconds}", "-max_len=#{MAX_SIZE}",
           "-timeout=5", "-rss_limit_mb=2048", "-dict=#{HOME}/http1.dict", "-artifact_prefix=#{crashes}/",
           out: log, err: %i[child out])
    return File.readlines(log).grep(/^#\d+\s+DONE/).last.strip if $CHILD_STATUS.success?

    puts File.readlines(log).last(60)
    nil
  end

  def self.build_all(targets)
    kinds = [:replay, *(:libfuzzer if libfuzzer?)]
    kinds.each { |kind| objects(kind) }
    AtOnce.map(targets.product(kinds)) { |target, kind| build(target, kind) }
  end

  # Replays each target, and fuzzes it where that can be done; ends the run when one fails.
  def self.run(targets, seconds)
    unknown = targets - TARGETS
    abort "no fuzz target #{unknown.join(', ')}: there are #{TARGETS.join(', ')}" unless unknown.empty?
    FileUtils.rm_rf(File.join(TMP, "seeds"))
    FuzzSeeds.write(File.join(TMP, "seeds"))
    build_all(targets)
    failed = targets.reject { |target| run_one(target, seconds) }
    abort "fuzz targets failed: #{failed.join(', ')}; the inputs are in tmp/fuzz/crashes" unless failed.empty?
  end

  def self.run_one(target, seconds)
    puts "fuzz #{target}: #{replay(target)} inputs played"
    unless libfuzzer?
      puts "fuzz #{target}: no clang with libFuzzer, so only these"
      return true
    end
    summary = explore(target, seconds)
    puts "fuzz #{target}: #{seconds} s, #{summary || 'FAILED'}"
    summary
  end
end

desc "Play the fuzz targets' corpora, and fuzz: TARGETS='head chunk' FUZZ_SECONDS=1 (each)"
task :fuzz do
  require "English"
  require_relative "../test/fuzz/seeds"
  $stdout.sync = true
  targets = ENV.fetch("TARGETS", "").split
  Fuzz.run(targets.empty? ? Fuzz::TARGETS : targets, Integer(ENV.fetch("FUZZ_SECONDS", "1")))
end
