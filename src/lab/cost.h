// SPDX-License-Identifier: MIT
#pragma once
// What a variant must do at least, and which limit of the machine it should run into.
#include <cstdint>
#include <optional>
#include <string_view>

namespace cheetah::lab {

// The limits the lab measures. Core*: of one core; the others are of the whole CPU or device.
enum class Roof {
  kNone,      // time is all there is to say
  kDram,      // bytes/s from memory: reads for a CPU, a device copy (read + write) for a GPU
  kDramRead,  // bytes/s of a GPU's memory when nearly all are read: turning the bus round costs a copy a few
              // percent
  kL3,        // CPU, one core
  kL2,        // bytes/s; CPU: one core
  kL1,        // bytes/s; CPU: one core, GPU: shared memory
  kFp32,      // F32 multiply-adds, two operations each
  kTensorBf16,  // BF16 products on tensor cores (GPU)
  kTensorFp8,   // FP8 products on tensor cores (GPU)
  kHostLink,    // bytes/s between pinned host memory and the device, one direction
  kCoreDram,    // bytes/s of memory one core can read
  kCoreFp32,    // F32 multiply-adds of one core
  kLaunch,      // launches/s of an empty kernel in a stream: set Cost::items to the launches
};
inline constexpr int kNumRoofs = static_cast<int>(Roof::kLaunch) + 1;
std::string_view name_of(Roof roof);
std::optional<Roof> roof_named(std::string_view name);
bool counts_bytes(Roof roof);
bool counts_flops(Roof roof);

struct Cost {
  double flops = 0;  // exact
  double bytes = 0;  // the least that must move through `roof`'s level (or through memory)
  Roof roof = Roof::kDram;
  double items = 0;       // anything else to divide time by: hops, messages, launches, tokens
  const char* item = "";  // its name, e.g. "hop"
};

}  // namespace cheetah::lab
