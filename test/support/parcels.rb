# frozen_string_literal: true

# What the applications of the smaller frameworks share: each takes the label of a parcel and streams what was posted,
# in its own way. For test classes with FrameworkCase.
module Parcels
  def test_parameters
    assert_equal "404", get("/nothing").code
    answer = get("/parcels/7?to=Ada")
    assert_equal parcel, [answer["content-type"], answer.body]
  end

  def test_upload
    response = upload("/parcels", to: "Ada", content: "x" * 300_000)
    assert_equal ["201", "Ada label.txt 300000"], [response.code, response.body]
  end

  def test_stream
    stream = assert_events_one_by_one(%w[first second third])
    assert_usable(stream, "/parcels/1")
  end
end
