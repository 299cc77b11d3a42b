// SPDX-License-Identifier: MIT
// Loads that wait for each other: the latency of each level, and what chains side by side hide of it.
#include <numeric>

#include "base/random.h"
#include "lab/array_trial.h"

namespace cheetah::lab {
namespace {

constexpr int64_t kLine = 16;       // words per node takes: one cache line
constexpr int kWalks = 8;           // from nodes 0 to 7
constexpr int64_t kHops = 1 << 11;  // a walk

// next[i * kLine] is where the node after node i begins: one random cycle through all of them.
void fill_cycle(std::span<uint32_t> next, uint64_t seed) {
  std::vector<uint32_t> order(next.size() / kLine);
  std::iota(order.begin(), order.end(), 0u);
  for (size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[philox_at(seed, 1, i) % i]);
  for (size_t i = 0; i < order.size(); ++i)
    next[order[i] * kLine] = order[(i + 1) % order.size()] * static_cast<uint32_t>(kLine);
}

template <int kAtOnce>
void walk_all(const uint32_t* next, uint32_t* ends) {
  for (int first = 0; first < kWalks; first += kAtOnce) {
    uint32_t at[kAtOnce];
    for (int c = 0; c < kAtOnce; ++c) at[c] = static_cast<uint32_t>((first + c) * kLine);
    for (int64_t hop = 0; hop < kHops; ++hop)
      for (int c = 0; c < kAtOnce; ++c) at[c] = next[at[c]];
    for (int c = 0; c < kAtOnce; ++c) ends[first + c] = at[c];
  }
}

std::unique_ptr<Trial> make(const Setup& setup) {
  auto trial = std::make_unique<ArrayTrial>(setup);
  const auto next = trial->input_from<uint32_t>("next", setup.dim(0) / 4, fill_cycle);
  const auto ends = trial->output<uint32_t>("ends", kWalks);
  trial->set_cost({.roof = Roof::kNone, .items = static_cast<double>(kWalks * kHops), .item = "hop"});
  trial->reference([=](const HostArrays& host) {
    for (size_t walk = 0; walk < kWalks; ++walk) {
      auto at = static_cast<uint32_t>(walk * kLine);
      for (int64_t hop = 0; hop < kHops; ++hop) at = host[next][at];
      host[ends][walk] = at;
    }
  });
  trial->variant("one walk", [=](const Launch& at) { walk_all<1>(at[next], at[ends]); });
  trial->variant("two at once", [=](const Launch& at) { walk_all<2>(at[next], at[ends]); });
  trial->variant("eight at once", [=](const Launch& at) { walk_all<8>(at[next], at[ends]); });
  return trial;
}

const Registered kPointerChase({
    .id = "cpu/pointer-chase",
    .title = "Pointer chase",
    .question = "How long is a dependent load from each level, and how much do independent chains hide?",
    .mechanism =
        "A load whose address is the last load's value cannot start early: a hop costs the level's whole "
        "latency. Chains that do not depend on each other overlap until the miss buffers are full.",
    .claim = {.text =
                  "Registers, L1, L2 and memory differ by an order of magnitude in latency each; parallel "
                  "requests hide it."},
    .domain = Domain::kCpu,
    .rotation = Rotation::kHot,
    .variants = {{"one walk", "eight walks, one after the other"}, {"two at once", "the same walks in pairs"},
        {"eight at once", "all eight side by side"}},
    .sizes = {{"16 KiB", {16 << 10}}, {"512 KiB", {512 << 10}}, {"8 MiB", {8 << 20}},
        {"256 MiB", {256 << 20}}},
    .quick = {{"16 KiB", {16 << 10}}, {"8 MiB", {8 << 20}}},
    .make = make,
});

}  // namespace
}  // namespace cheetah::lab
