// SPDX-License-Identifier: MIT
#include "lab/experiments/device_trial.cuh"

#include <algorithm>
#include <array>

namespace cheetah::lab {
namespace {

constexpr int64_t kGuardBytes = 512;  // before and after each array; keeps the alignment textures want
constexpr int kGuardByte = 0x5A;
constexpr int kPoisonByte = 0xFF;  // NaN in every floating type
constexpr int64_t kMostSets = 64;
constexpr int64_t kTimesCache = 4;  // replacement is not strictly oldest first

int64_t padded(int64_t bytes) { return (bytes + kGuardBytes - 1) / kGuardBytes * kGuardBytes; }

}  // namespace

gpu::Stream& At::stream() const { return trial_.stream(); }

DeviceTrial::DeviceTrial(const Setup& setup)
    : setup_(setup), tolerance_(setup.experiment.tolerance), code_(setup.experiment.variants.size()) {}

DeviceTrial::~DeviceTrial() { owned_.clear(); }

size_t DeviceTrial::add(Declared array) {
  CHEETAH_ASSERT(buffers_.empty(), "arrays are declared before the first fill");
  arrays_.push_back(std::move(array));
  return arrays_.size() - 1;
}

DeviceTrial::Code& DeviceTrial::code_of(std::string_view name) {
  const auto& variants = setup_.experiment.variants;
  const auto at =
      std::find_if(variants.begin(), variants.end(), [&](const Variant& v) { return v.name == name; });
  CHEETAH_ASSERT(at != variants.end(), "a variant is declared in its experiment");
  return code_[static_cast<size_t>(at - variants.begin())];
}

void DeviceTrial::set_cost(const Cost& cost) { cost_ = cost; }
void DeviceTrial::set_cost(std::string_view variant, const Cost& cost) { code_of(variant).cost = cost; }
void DeviceTrial::variant(std::string_view name, std::function<void(const At&)> run) {
  code_of(name).run = std::move(run);
}
void DeviceTrial::timed_variant(std::string_view name, std::function<double(const At&)> run) {
  code_of(name).timed = std::move(run);
}
void DeviceTrial::refuse(std::string_view name, std::string why) { code_of(name).refusal = std::move(why); }

int DeviceTrial::num_sets() const {
  if (setup_.experiment.rotation == Rotation::kHot) return 1;
  int64_t bytes = 0;
  for (const Declared& array : arrays_) bytes += array.bytes;
  if (touched_bytes_ > 0) bytes = std::min(bytes, touched_bytes_);
  if (bytes == 0) return 1;
  return static_cast<int>(std::clamp<int64_t>(kTimesCache * setup_.cache_bytes / bytes + 1, 1, kMostSets));
}

void DeviceTrial::allocate() {
  const auto sets = static_cast<size_t>(num_sets());
  for (size_t set = 0; set < sets; ++set)
    for (const Declared& array : arrays_)
      buffers_.push_back(setup_.memory->allocate(
          gpu::ArenaKind::kWorkspace, padded(array.bytes) + 3 * kGuardBytes, stream()));
  found_ = setup_.memory->allocate(gpu::ArenaKind::kWorkspace, sizeof(FirstWrong), stream());
  for (const gpu::DeviceBuffer& buffer : buffers_)
    gpu::fill_bytes(buffer.data(), kGuardByte, buffer.size(), stream());
}

std::byte* DeviceTrial::data(size_t array, int set) const {
  const gpu::DeviceBuffer& buffer = buffers_.at(static_cast<size_t>(set) * arrays_.size() + array);
  const auto start =
      reinterpret_cast<uintptr_t>(buffer.data()) + kGuardBytes;  // at least one whole band before
  return buffer.data() + (padded(static_cast<int64_t>(start)) - static_cast<int64_t>(start)) + kGuardBytes;
}

void DeviceTrial::fill(uint64_t seed) {
  if (buffers_.empty()) allocate();
  for (int set = 0; set < num_sets(); ++set) {
    for (size_t i = 0; i < arrays_.size(); ++i) {
      if (arrays_[i].kind == Kind::kInput)
        arrays_[i].fill(data(i, set), mixed(seed, static_cast<uint64_t>(set)));
      else
        gpu::fill_bytes(data(i, set), 0, arrays_[i].bytes, stream());
    }
    if (after_fill_) after_fill_(At(*this, set, 0));
  }
  stream().wait();
}

void DeviceTrial::poison(int set) {
  for (size_t i = 0; i < arrays_.size(); ++i)
    if (arrays_[i].kind == Kind::kOutput)
      gpu::fill_bytes(data(i, set), kPoisonByte, arrays_[i].bytes, stream());
}

std::optional<double> DeviceTrial::launch(int variant, int set) {
  const Code& code = code_[static_cast<size_t>(variant)];
  const At at(*this, set, variant);
  if (code.timed) return code.timed(at);
  code.run(at);
  return std::nullopt;
}

bool DeviceTrial::guards_hold(size_t array, int set) const {
  std::array<unsigned char, 2 * kGuardBytes> bands;
  const std::byte* begin = data(array, set);
  gpu::copy_to_host(bands.data(), begin - kGuardBytes, kGuardBytes, stream());
  gpu::copy_to_host(bands.data() + kGuardBytes, begin + arrays_[array].bytes, kGuardBytes, stream());
  stream().wait();
  return std::all_of(bands.begin(), bands.end(), [](unsigned char byte) { return byte == kGuardByte; });
}

std::optional<std::string> DeviceTrial::check(int variant, int set) {
  const At at(*this, set, variant);
  for (size_t i = 0; i < arrays_.size(); ++i) {
    if (!guards_hold(i, set)) return "something wrote outside array " + std::to_string(i);
    if (!arrays_[i].find_wrong) continue;
    gpu::fill_bytes(found_.data(), 0xFF, found_.size(), stream());
    arrays_[i].find_wrong(at, found_.as<FirstWrong>());
    FirstWrong found{};
    gpu::copy_to_host(&found, found_.data(), sizeof found, stream());
    stream().wait();
    if (found.index != ~0ull)
      return "element " + std::to_string(found.index) + " of array " + std::to_string(i) + " is " +
             std::to_string(found.got) + ", expected " + std::to_string(found.want);
  }
  return std::nullopt;
}

Cost DeviceTrial::cost(int variant) const { return code_[static_cast<size_t>(variant)].cost.value_or(cost_); }

std::optional<std::string> DeviceTrial::refusal(int variant) const {
  const Code& code = code_[static_cast<size_t>(variant)];
  if (!code.refusal.empty()) return code.refusal;
  if (!code.run && !code.timed) return "not made for this size";
  return std::nullopt;
}

}  // namespace cheetah::lab
