# frozen_string_literal: true

require "test_helper"
require "support/http1_cases"

# Plays every case of test/cases/http1.jsonl over sockets, in many segmentations.
class Http1CasesTest < Minitest::Test
  include ServerCase
  include Http1Cases

  def setup
    super
    @served = serve(Cases::App.new, **PATIENT)
  end

  def test_whole
    play("whole") { |bytes| [Cases::Segmentation.whole(bytes)] }
  end

  def test_byte_by_byte
    play("bytes") { |bytes| [Cases::Segmentation.bytes(bytes)] }
  end

  # Some 17,000 connections: each quarter has a test's time for itself.
  4.times do |nth|
    define_method("test_cut_in_two_everywhere_#{nth + 1}_of_4") do
      quarter = Cases.all.each_slice((Cases.all.size + 3) / 4).to_a.fetch(nth)
      play("halves", cases: quarter) { |bytes| Cases::Segmentation.halves(bytes) }
    end
  end

  def test_random_segments
    play("random") { |bytes| (1..4).map { |seed| Cases::Segmentation.random(bytes, seed) } }
  end

  def test_second_request_on_a_connection
    play("second", before: GET) { |bytes| [Cases::Segmentation.whole(bytes)] }
  end

  def test_every_case_was_read
    assert_equal 299, Cases.all.size
    assert_equal Cases.all.size, Cases.all.map(&:id).uniq.size
  end

  private

  def connect_case
    Socket.new(:INET, :STREAM).tap do |socket|
      socket.setsockopt(:TCP, :NODELAY, 1)
      socket.connect(Addrinfo.tcp("127.0.0.1", @served.port))
    end
  end
end
