/* The parser of heads. The verdict does not depend on the segments; what was parsed lies in the
 * head and is what its grammar allows; no complete line is looked at a third time, so that a head
 * which drips in costs time linear in its size. */
#include "fuzz.h"

#include "http/char.h"
#include "http1/head.h"

#define FIELDS 128

static void check_error(int error) {
  require(error > AB_HTTP_ERROR_BASE && ab_http_error_status(error) != 500, "a known error");
}

static void check_field(const char *bytes, size_t size, const ab_field *field) {
  require(ab_is_token(field->name, field->name_len), "the name is a token");
  require(ab_is_field_value(field->value, field->value_len), "the value has no controls");
  require(inside(bytes, size, (ab_view){field->name, field->name_len}), "the name is inside");
  require(inside(bytes, size, (ab_view){field->value, field->value_len}), "the value is inside");
  if (field->value_len == 0) return;
  char first = field->value[0], last = field->value[field->value_len - 1];
  require(first != ' ' && first != '\t' && last != ' ' && last != '\t', "the value is trimmed");
}

static void check_request(const char *bytes, size_t size, const ab_limits *limits,
                          const ab_head *head) {
  const ab_request *request = &head->request;
  require(size <= limits->max_head_size && head->size == size, "the size is in bounds");
  require(request->field_count <= limits->max_header_count, "the fields are counted");
  require(memcmp(bytes + size - 4, "\r\n\r\n", 4) == 0, "an empty line ends the head");
  require(ab_is_token(request->method.ptr, request->method.len), "the method is a token");
  require(inside(bytes, size, request->method), "the method is inside");
  require(inside(bytes, size, request->target), "the target is inside");
  require(inside(bytes, size, request->host), "the host is inside");
  require(inside(bytes, size, request->port), "the port is inside");
  require(inside(bytes, size, request->authority), "the authority is inside");
  require(request->path.len > 0, "there is a path");
  require(request->minor == 0 || request->host.len > 0, "there is a host");
  require(head->framing.body != AB_BODY_CHUNKED || !head->framing.has_length, "one framing");
  require(head->framing.body != AB_BODY_LENGTH || head->framing.length > 0, "a length");
  for (uint32_t i = 0; i < request->field_count; i++) {
    check_field(bytes, size, &request->fields[i]);
  }
}

/* Where the last line that ends before `len` ends. */
static size_t complete_lines(const char *bytes, size_t len) {
  while (len >= 2 && memcmp(bytes + len - 2, "\r\n", 2) != 0) len--;
  return len >= 2 ? len : 0;
}

/* An incomplete head: all its complete lines count as done, but for the request line alone, and no
 * limit has been reached. */
static void check_progress(const char *bytes, size_t len, const ab_limits *limits, uint32_t before,
                           const ab_head_progress *progress) {
  require(progress->checked >= before && progress->checked <= len, "progress goes on");
  size_t lines = complete_lines(bytes, len);
  require(progress->checked == 0 || progress->checked == lines, "no line is parsed again");
  uint64_t most = progress->checked ? limits->max_header_line : limits->max_request_line;
  require(len - lines < most + 2, "no line grows for ever");
  require(len < limits->max_head_size, "nor does the head");
}

/* Returns what the parser says when it has seen the segments up to that verdict. */
static int play(fuzz_input *input) {
  ab_head_progress progress = {0};
  ab_head head;
  ab_field fields[FIELDS];
  int result = AB_AGAIN;
  for (size_t here = 0; result == AB_AGAIN && here < input->len;) {
    size_t step = fuzz_next_segment(input, here), rest = input->len - here;
    uint32_t before = progress.checked;
    here += step < rest ? step : rest;
    char *bytes = fuzz_copy(input->bytes, here);
    result = ab_head_parse(bytes, here, &input->limits, NULL, &progress, &head, fields);
    if (result == AB_AGAIN) {
      check_progress(bytes, here, &input->limits, before, &progress);
    } else if (result < 0) {
      check_error(result);
    } else {
      require((size_t)result <= here, "no more is used than came");
      check_request(bytes, (size_t)result, &input->limits, &head);
    }
    free(bytes);
  }
  return result;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  fuzz_input input;
  if (!fuzz_open(data, size, &input)) return 0;
  int cut = play(&input);
  input.cut_count = 0;
  require(play(&input) == cut, "segments are as the whole");
  return 0;
}
