// SPDX-License-Identifier: MIT
#include "lab/array_trial.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>

#include "base/error.h"
#include "base/format.h"

namespace cheetah::lab {
namespace {

constexpr int64_t kGuardBytes =
    256;  // before and after every array; keeps the alignment of what lies between
constexpr auto kGuard = std::byte{0xA5};
constexpr int kPoison = 0xFF;  // NaN in every float type we use, -1 in every integer
constexpr int kMostSets = 64;

// Aligned host memory, in huge pages where it is large, so that every variant has the same TLB.
class HostBlock {
 public:
  HostBlock() = default;
  explicit HostBlock(int64_t bytes) {
    constexpr int64_t kHuge = int64_t{2} << 20;
    const int64_t align = bytes >= kHuge ? kHuge : 4096;
    const auto size = static_cast<size_t>((bytes + align - 1) / align * align);
    data_.reset(static_cast<std::byte*>(std::aligned_alloc(static_cast<size_t>(align), size)));
    if (!data_) throw std::bad_alloc();
    if (align == kHuge) madvise(data_.get(), size, MADV_HUGEPAGE);
    std::memset(data_.get(), 0, size);
  }
  std::byte* data() const { return data_.get(); }

 private:
  struct Free {
    void operator()(std::byte* data) const { std::free(data); }
  };
  std::unique_ptr<std::byte, Free> data_;
};

int64_t padded(int64_t bytes) { return (bytes + kGuardBytes - 1) / kGuardBytes * kGuardBytes; }

}  // namespace

struct ArrayTrial::Code {
  std::function<void(const Launch&)> run;
  std::function<double(const Launch&)> timed;
  std::string refusal = "it has no code for this size";
  std::optional<Cost> cost;
  std::optional<Tolerance> tolerance;
};

// One set is one block; an array of it begins at the offset, a guard before and after.
struct ArrayTrial::Storage {
  std::vector<int64_t> offsets;
  int64_t set_bytes = 0;
  int num_sets = 1;
  bool on_device = false;
  std::vector<HostBlock> host;  // CPU: the sets. CUDA: one, the image of a set being filled or checked
  std::vector<gpu::DeviceBuffer> device;  // CUDA: the sets
  std::vector<std::byte*> pointers;       // [set][array], where variants run
  HostBlock expected;
  int expected_set = -1;  // whose answer `expected` is
  uint64_t seed = 0;
  Cost cost;
  std::optional<Tolerance> tolerance;
};

ArrayTrial::ArrayTrial(const Setup& setup)
    : setup_(setup), storage_(std::make_unique<Storage>()), code_(setup.experiment.variants.size()) {
  storage_->on_device = setup.stream != nullptr;
}
ArrayTrial::~ArrayTrial() = default;

size_t ArrayTrial::add(Declared array) {
  CHEETAH_ASSERT(storage_->offsets.empty(), "arrays are declared before the first fill");
  arrays_.push_back(std::move(array));
  return arrays_.size() - 1;
}

size_t ArrayTrial::variant_index(std::string_view name) const {
  const auto& variants = setup_.experiment.variants;
  const auto at = std::ranges::find(variants, name, &Variant::name);
  CHEETAH_ASSERT(at != variants.end(), "a trial's variants are named as in its experiment");
  return static_cast<size_t>(at - variants.begin());
}

void ArrayTrial::set_cost(const Cost& cost) { storage_->cost = cost; }
void ArrayTrial::set_cost(std::string_view variant, const Cost& cost) {
  code_[variant_index(variant)].cost = cost;
}
void ArrayTrial::set_tolerance(const Tolerance& tolerance) { storage_->tolerance = tolerance; }
void ArrayTrial::set_tolerance(std::string_view variant, const Tolerance& tolerance) {
  code_[variant_index(variant)].tolerance = tolerance;
}
void ArrayTrial::reference(std::function<void(const HostArrays&)> oracle) { reference_ = std::move(oracle); }
void ArrayTrial::device_reference(std::function<void(const Launch&)> oracle) {
  device_reference_ = std::move(oracle);
}
void ArrayTrial::variant(std::string_view name, std::function<void(const Launch&)> run) {
  Code& code = code_[variant_index(name)];
  code.run = std::move(run);
  code.refusal.clear();
}
void ArrayTrial::timed_variant(std::string_view name, std::function<double(const Launch&)> run) {
  Code& code = code_[variant_index(name)];
  code.timed = std::move(run);
  code.refusal.clear();
}
void ArrayTrial::refuse(std::string_view name, std::string why) {
  code_[variant_index(name)].refusal = std::move(why);
}
void ArrayTrial::own(std::shared_ptr<void> resource) { owned_.push_back(std::move(resource)); }

void ArrayTrial::allocate() {
  Storage& s = *storage_;
  if (!s.offsets.empty()) return;
  CHEETAH_ASSERT(!arrays_.empty() && (reference_ || device_reference_), "a trial has arrays and an oracle");
  for (const Declared& array : arrays_) {
    s.offsets.push_back(s.set_bytes + kGuardBytes);
    s.set_bytes += padded(array.bytes) + 2 * kGuardBytes;
  }
  constexpr int64_t kTimesCache = 4;  // replacement is not strictly oldest first
  if (setup_.experiment.rotation == Rotation::kPastCaches)
    s.num_sets = static_cast<int>(std::clamp<int64_t>(
        (kTimesCache * setup_.cache_bytes + s.set_bytes - 1) / s.set_bytes, 1, kMostSets));
  const int host_sets = s.on_device ? 1 : s.num_sets;
  for (int set = 0; set < host_sets; ++set) s.host.emplace_back(s.set_bytes);
  for (int set = 0; s.on_device && set < s.num_sets; ++set)
    s.device.push_back(setup_.memory->allocate(gpu::ArenaKind::kWorkspace, s.set_bytes, *setup_.stream));
  s.expected = HostBlock(s.set_bytes);
  for (int set = 0; set < s.num_sets; ++set)
    for (const int64_t offset : s.offsets) {
      const auto index = static_cast<size_t>(set);
      s.pointers.push_back((s.on_device ? s.device[index].data() : s.host[index].data()) + offset);
    }
}

std::byte* ArrayTrial::data(size_t array, int set) const {
  return storage_->pointers[static_cast<size_t>(set) * arrays_.size() + array];
}

Launch ArrayTrial::launch_of(int set) const {
  return Launch(setup_, storage_->pointers.data() + static_cast<size_t>(set) * arrays_.size(), set);
}

int ArrayTrial::num_sets() const { return storage_->num_sets; }

// Writes the set's image into its host block: random inputs, zeroes elsewhere, guards around.
void ArrayTrial::fill_set(int set) {
  Storage& s = *storage_;
  std::byte* image = s.host[s.on_device ? 0 : static_cast<size_t>(set)].data();
  std::vector<std::byte*> pointers;
  for (size_t i = 0; i < arrays_.size(); ++i) {
    std::byte* at = image + s.offsets[i];
    std::memset(at - kGuardBytes, static_cast<int>(kGuard), kGuardBytes);
    std::memset(at, 0, static_cast<size_t>(arrays_[i].bytes));
    std::memset(at + arrays_[i].bytes, static_cast<int>(kGuard),
        static_cast<size_t>(padded(arrays_[i].bytes) - arrays_[i].bytes + kGuardBytes));
    if (arrays_[i].derive) arrays_[i].derive(at, HostArrays(pointers));
    pointers.push_back(at);
    if (arrays_[i].fill) arrays_[i].fill(at, s.seed + 0x10001u * static_cast<uint64_t>(set) + 0x1000193u * i);
  }
}

void ArrayTrial::fill(uint64_t seed) {
  allocate();
  Storage& s = *storage_;
  s.seed = seed;
  s.expected_set = -1;
  for (int set = 0; set < s.num_sets; ++set) {
    fill_set(set);
    if (!s.on_device) continue;
    gpu::copy_to_device(
        s.device[static_cast<size_t>(set)].data(), s.host[0].data(), s.set_bytes, *setup_.stream);
    setup_.stream->wait();
  }
}

void ArrayTrial::compute_expected(int set) {
  Storage& s = *storage_;
  if (s.expected_set == set) return;
  if (device_reference_ && s.on_device) {
    device_reference_(launch_of(set));
    gpu::copy_to_host(
        s.expected.data(), s.device[static_cast<size_t>(set)].data(), s.set_bytes, *setup_.stream);
    setup_.stream->wait();
  } else {
    if (s.on_device)
      fill_set(set);  // the image is a function of the seed: nothing comes back from the device
    const std::byte* image = s.host[s.on_device ? 0 : static_cast<size_t>(set)].data();
    std::memcpy(s.expected.data(), image, static_cast<size_t>(s.set_bytes));
    std::vector<std::byte*> pointers;
    for (size_t i = 0; i < arrays_.size(); ++i) {
      pointers.push_back(s.expected.data() + s.offsets[i]);
      if (arrays_[i].kind == Kind::kOutput)
        std::memset(pointers[i], 0, static_cast<size_t>(arrays_[i].bytes));
    }
    reference_(HostArrays(std::move(pointers)));
  }
  s.expected_set = set;
}

void ArrayTrial::poison(int set) {
  compute_expected(set);  // first: on the device it writes the same outputs
  for (size_t i = 0; i < arrays_.size(); ++i) {
    if (arrays_[i].kind != Kind::kOutput) continue;
    if (storage_->on_device)
      gpu::fill_bytes(data(i, set), kPoison, arrays_[i].bytes, *setup_.stream);
    else
      std::memset(data(i, set), kPoison, static_cast<size_t>(arrays_[i].bytes));
  }
}

std::optional<double> ArrayTrial::launch(int variant, int set) {
  const Code& code = code_[static_cast<size_t>(variant)];
  const Launch at = launch_of(set);
  if (code.timed) return code.timed(at);
  code.run(at);
  return std::nullopt;
}

std::optional<std::string> ArrayTrial::guards_broken(const Declared& array, const std::byte* image) const {
  const auto is_guard = [](std::byte byte) { return byte == kGuard; };
  if (!std::all_of(image - kGuardBytes, image, is_guard))
    return array.name + " was written before its beginning";
  const std::byte* end = image + array.bytes;
  if (!std::all_of(end, end + kGuardBytes, is_guard)) return array.name + " was written past its end";
  return std::nullopt;
}

std::optional<std::string> ArrayTrial::check(int variant, int set) {
  Storage& s = *storage_;
  const std::byte* image = s.host[s.on_device ? 0 : static_cast<size_t>(set)].data();
  if (s.on_device) {
    gpu::copy_to_host(
        s.host[0].data(), s.device[static_cast<size_t>(set)].data(), s.set_bytes, *setup_.stream);
    setup_.stream->wait();
  }
  const Tolerance tolerance = code_[static_cast<size_t>(variant)].tolerance.value_or(
      s.tolerance.value_or(setup_.experiment.tolerance));
  for (size_t i = 0; i < arrays_.size(); ++i) {
    const Declared& array = arrays_[i];
    if (auto broken = guards_broken(array, image + s.offsets[i])) return broken;
    if (array.kind != Kind::kOutput) continue;
    if (const auto wrong =
            array.wrong(image + s.offsets[i], s.expected.data() + s.offsets[i], array.count, tolerance))
      return format("{}[{}] is {:g}, expected {:g}", array.name, wrong->index, wrong->got, wrong->want);
  }
  return std::nullopt;
}

Cost ArrayTrial::cost(int variant) const {
  return code_[static_cast<size_t>(variant)].cost.value_or(storage_->cost);
}

std::optional<std::string> ArrayTrial::refusal(int variant) const {
  const Code& code = code_[static_cast<size_t>(variant)];
  if (code.run || code.timed) return std::nullopt;
  return code.refusal;
}

}  // namespace cheetah::lab
