// SPDX-License-Identifier: MIT
#include <algorithm>
#include <array>
#include <cstring>

#include "base/thread_pool.h"
#include "model/cuda/device_weights.h"

namespace cheetah {
namespace {

// A pinned buffer that is filled again once its last copy has gone.
class Stage {
 public:
  explicit Stage(int64_t bytes) : buffer_(bytes) {}
  void send(ThreadPool& threads, const std::byte* from, int64_t bytes, std::byte* to, gpu::Stream& stream) {
    constexpr int64_t kGrain = 1 << 20;
    sent_.wait();
    threads.parallel_for(bytes, kGrain, [&](int64_t begin, int64_t end, int) {
      std::memcpy(buffer_.data() + begin, from + begin, static_cast<size_t>(end - begin));
    });
    gpu::copy_to_device(to, buffer_.data(), bytes, stream);
    sent_.record(stream);
  }

 private:
  gpu::PinnedBuffer buffer_;
  gpu::Event sent_;
};

}  // namespace

void upload_pieces(const Placement& placement, const gpu::DeviceBuffer& block, gpu::Stream& stream) {
  constexpr int64_t kMostStaged = int64_t{64}
                                  << 20;  // large enough that the bus, not the call, sets the pace
  const int64_t staged = std::min(kMostStaged, placement.total_bytes());
  ThreadPool threads({.pin = false});
  std::array stages = {Stage(staged), Stage(staged)};
  size_t turn = 0;
  for (const auto& [data, place] : placement.places())
    for (int64_t at = 0; at < place.bytes; at += staged)
      stages[turn++ % stages.size()].send(
          threads, data + at, std::min(staged, place.bytes - at), block.data() + place.offset + at, stream);
  stream.wait();
}

}  // namespace cheetah
