// SPDX-License-Identifier: MIT
#pragma once
// Pages that other engines read: those of a request's prompt, as they are computed.
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/kv/kv_transfer.h"
#include "engine/sequence_pages.h"

namespace cheetah {

// Holds the pages of each export until it is closed. One thread. What happens is reported by deliver(), so that
// a sink never runs inside a step.
class Exports {
 public:
  using Number = uint64_t;
  struct Pages {
    std::vector<PageList> lists;  // one per group
    int64_t ready = 0;            // places
  };
  using Sink = std::function<void(const Pages&, const KvProgress&)>;

  explicit Exports(SequencePages& pages) : pages_(pages) {}

  // Of the prompt of `request` up to `end_token`. The request may come later.
  Number open(RequestId request, int64_t end_token, Sink sink);
  void close(Number number);

  bool any() const { return !exports_.empty(); }
  bool has(const RequestState& request) const;  // one that is not complete
  void advance(const Sequence& sequence);       // a chunk was computed
  void end(RequestId request, std::string_view why);
  void deliver();

  int64_t num_held_pages() const;

 private:
  struct Export {
    Number number = 0;
    RequestId request{};
    int64_t end_token = 0;
    Sink sink;
    Pages pages;
    bool ended = false;  // finished or failed
  };
  struct Report {
    Number number = 0;
    KvProgress progress;
  };
  void advance(Export& exported, const Sequence& sequence);
  bool holds_window_before(const Sequence& sequence, int64_t end) const;
  void report(const Export& exported, KvProgress progress);
  int64_t page_tokens() const { return pages_.pool().page_tokens(); }

  SequencePages& pages_;
  std::vector<Export> exports_;
  std::vector<Report> reports_;
  Number num_opened_ = 0;
};

}  // namespace cheetah
