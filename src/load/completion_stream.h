// SPDX-License-Identifier: MIT
#pragma once
// The streamed answer of an OpenAI-compatible server, from body bytes to a record. No sockets, no clock.
#include <string>
#include <string_view>

#include "load/record.h"

namespace cheetah {

// Lines of text/event-stream put together: yields the data of each whole event.
class EventLines {
 public:
  // Calls `take(std::string_view data)` for every event that `bytes` completes. Throws Error for an event
  // over 16 MiB.
  template <class Take>
  void feed(std::string_view bytes, Take take) {
    for (const char byte : bytes) {
      if (byte == '\n' && after_return_) {  // the second half of \r\n
        after_return_ = false;
        continue;
      }
      after_return_ = byte == '\r';
      if (byte != '\n' && byte != '\r') {
        add(byte);
      } else if (end_line()) {
        take(std::string_view(data_));
        data_.clear();
      }
    }
  }

 private:
  void add(char byte);
  bool end_line();  // true: data_ holds a whole event

  std::string line_, data_;
  bool has_data_ = false;
  bool after_return_ = false;
};

// Fills a record from the events of one answer.
class CompletionStream {
 public:
  // `empty_counts`: every event with a choice is a token, also one without text. A model without a tokenizer
  // has no other.
  explicit CompletionStream(RequestRecord& record, bool empty_counts = false)
      : record_(record), empty_counts_(empty_counts) {}
  // Bytes of the body that arrived at `now_s`.
  void feed(std::string_view bytes, double now_s);
  // The body ended. Decides whether the answer was whole.
  void finish();
  bool said_done() const { return said_done_; }

 private:
  void on_event(std::string_view data, double now_s);
  void on_text(double now_s);
  void fail(RequestFailure failure, std::string detail);

  RequestRecord& record_;
  bool empty_counts_;
  EventLines lines_;
  bool said_done_ = false;
  bool said_reason_ = false;
};

// The message of an error body: {"error": {"message": ...}} and its like, else the text itself, cut.
std::string error_message_of(std::string_view body);

}  // namespace cheetah
