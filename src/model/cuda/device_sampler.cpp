// SPDX-License-Identifier: MIT
#include "model/cuda/device_sampler.h"

#include <algorithm>
#include <cstring>

namespace cheetah {
namespace {

constexpr int64_t kAlignment = 16;  // of each list in the block

template <class T>
std::span<const std::byte> bytes_of(std::span<const T> values) {
  return std::as_bytes(values);
}

}  // namespace

void DeviceSampler::send(std::span<const SampleRow> rows, std::span<const int64_t> logit_rows) {
  plan_.assign(rows, vocab_);
  logit_rows_.clear();
  for (const int64_t row : logit_rows) logit_rows_.push_back(static_cast<int32_t>(row));
  args_ = {.vocab = vocab_,
      .num_rows = std::ssize(rows),
      .num_changed = plan_.num_changed(),
      .filters = plan_.filters(),
      .has_logprobs = plan_.has_logprobs()};
  if (rows.empty()) return;
  send_lists();
  reserve();
}

void DeviceSampler::run(const float* logits, const int32_t* tokens, int32_t* ids) {
  if (args_.num_rows == 0) return;
  args_.logits = logits;
  args_.last_tokens = tokens;
  args_.ids = ids;
  gpu::sample_rows(args_, place_.stream);
}

// One block of all lists.
void DeviceSampler::send_lists() {
  const std::array lists = {bytes_of(plan_.entries()), bytes_of(plan_.seen()), bytes_of(plan_.biased()),
      bytes_of(plan_.forbidden()), bytes_of(plan_.masks()), bytes_of(std::span<const int32_t>(logit_rows_))};
  std::array<int64_t, lists.size()> offsets{};
  int64_t total = 0;
  for (size_t i = 0; i < lists.size(); ++i) {
    offsets[i] = total;
    total += (std::ssize(lists[i]) + kAlignment - 1) / kAlignment * kAlignment;
  }
  Staging& staging = staging_[next_staging_++ % staging_.size()];
  staging.sent.wait();
  if (staging.memory.size() < total) staging.memory = gpu::PinnedBuffer(2 * total);
  for (size_t i = 0; i < lists.size(); ++i)
    if (!lists[i].empty()) std::memcpy(staging.memory.data() + offsets[i], lists[i].data(), lists[i].size());
  const std::byte* block = grow(lists_, total).data();
  gpu::copy_to_device(lists_.data(), staging.memory.data(), total, place_.stream);
  staging.sent.record(place_.stream);
  args_.entries = reinterpret_cast<const gpu::SampleEntry*>(block + offsets[0]);
  args_.seen = reinterpret_cast<const gpu::SeenToken*>(block + offsets[1]);
  args_.biased = reinterpret_cast<const gpu::BiasedToken*>(block + offsets[2]);
  args_.forbidden = reinterpret_cast<const int32_t*>(block + offsets[3]);
  args_.masks = reinterpret_cast<const uint32_t*>(block + offsets[4]);
  args_.last_token_rows = reinterpret_cast<const int32_t*>(block + offsets[5]);
}

void DeviceSampler::reserve() {
  const auto bytes = [&](int64_t count, size_t size) { return count * static_cast<int64_t>(size); };
  args_.changed = grow(changed_, bytes(args_.num_changed * vocab_, sizeof(float))).as<float>();
  args_.parts = grow(parts_, bytes(args_.num_rows * gpu::sample_pieces(vocab_), sizeof(gpu::SamplePart)))
                    .as<gpu::SamplePart>();
  args_.totals = grow(totals_, bytes(args_.num_rows, sizeof(gpu::SampleTotal))).as<gpu::SampleTotal>();
  args_.outcomes =
      grow(outcomes_, bytes(args_.num_rows, sizeof(gpu::SampleOutcome))).as<gpu::SampleOutcome>();
  const gpu::DeviceBuffer& arrivals = arrivals_;
  const std::byte* before = arrivals.data();
  args_.arrivals = grow(arrivals_, bytes(args_.num_rows, sizeof(uint32_t))).as<uint32_t>();
  if (arrivals.data() != before) gpu::fill_bytes(arrivals.data(), 0, arrivals.size(), place_.stream);
}

// Growing forgets the contents.
gpu::DeviceBuffer& DeviceSampler::grow(gpu::DeviceBuffer& buffer, int64_t bytes) {
  if (buffer.size() < bytes)
    buffer = place_.memory.allocate(gpu::ArenaKind::kWorkspace, 2 * bytes, place_.stream);
  return buffer;
}

void read_outcome(const gpu::SampleOutcome& outcome, SampledToken& sampled) {
  sampled.impossible = outcome.impossible != 0;
  sampled.failed = false;
  sampled.token.id = outcome.id;
  sampled.token.logprob = outcome.logprob;
  sampled.token.top.assign(outcome.top, outcome.top + outcome.num_top);
}

}  // namespace cheetah
