// SPDX-License-Identifier: MIT
#pragma once
// The caller's end of an export. The engine thread adds pages; readers look under the lock and copy without it.
// The pages go back when it is closed and the last reader is done.
#include <memory>
#include <optional>

#include "base/published.h"
#include "engine/engine_thread.h"
#include "engine/kv/kv_transfer.h"

namespace cheetah {

class Engine::Export final : public KvExport {
 public:
  explicit Export(Engine::Thread& engine) : shared_(std::make_shared<Shared>(engine)) {}
  ~Export() override { close(); }

  void open(RequestId id, int64_t end_token, KvProgressSink progress);
  void close() override;
  void read(int64_t first_token, int64_t end_token, std::span<std::byte> to,
      std::function<void(bool)> done) override;

 private:
  struct Range {
    int64_t first_token, end_token;
    std::span<std::byte> to;
  };
  struct Entry {
    Exports::Pages pages;
    int64_t readers = 0;
    bool closed = false;
  };
  struct Shared {
    explicit Shared(Engine::Thread& owner) : engine(owner) {}
    Engine::Thread& engine;
    Exports::Number number = 0;  // the engine thread's
    Published<Entry> entry;
  };
  // Shared by the caller and what the engine thread has still to do.
  using SharedEntry = std::shared_ptr<Shared>;

  std::optional<Exports::Pages> begin_read(const Range& range);
  static void end_read(const SharedEntry& shared);
  static void give_back(const SharedEntry& shared);
  template <class Save>
  static void copy(const KvFormat& format, const Exports::Pages& pages, const Range& range, const Save& save);

  SharedEntry shared_;
};

}  // namespace cheetah
