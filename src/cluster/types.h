// SPDX-License-Identifier: MIT
#pragma once
// The words that every part of the cluster uses. Plain data.
#include <algorithm>
#include <array>
#include <chrono>
#include <compare>
#include <cstdint>
#include <string>
#include <vector>

namespace cheetah::cluster {

// Time is an argument everywhere: the wall's steady clock in production, a number in a simulation.
using Time = std::chrono::steady_clock::time_point;
using Duration = std::chrono::steady_clock::duration;

// One life of one process: drawn at random when it starts, so that a restarted worker is another worker and
// whatever it said before cannot be mistaken for what it says now.
enum class WorkerId : uint64_t {};
// One request of a client, unique in the cluster. An attempt is one try to answer it: the router counts them
// up, and whatever carries an older attempt is stale and dropped (fenced).
enum class RequestUid : uint64_t {};
enum class Attempt : uint32_t {};

// What a message about a request refers to.
struct RequestKey {
  RequestUid uid{};
  Attempt attempt{};

  auto operator<=>(const RequestKey&) const = default;
};

enum class Role : uint8_t { kRouter, kPrefill, kDecode, kBoth };
enum class WorkerState : uint8_t { kStarting, kReady, kDraining };
// How far a worker is with an operator's order to take nothing new. Its state is kDraining meanwhile.
enum class Cordon : uint8_t {
  kNone,
  kCordoned,  // what runs goes on
  kDraining,  // what still runs after a while goes on at other workers
  kDrained,   // nothing runs any more
};

// The formats of messages that a process reads and writes: each release adds one at most and keeps the one before,
// so that processes of two releases that follow one another work together (docs/cluster.md).
struct WireVersions {
  uint16_t newest = 5, oldest = 4;

  bool operator==(const WireVersions&) const = default;
};
inline constexpr WireVersions kWire{};

// What a worker's pages look like. Pages move as they are only between equal ones; where only the shard, the
// dtype, the order or the page size differs they are transformed, otherwise refused.
struct KvDescriptor {
  std::string model;  // digest of the weights and the tokenizer
  std::string dtype;  // of keys and values
  std::string order;  // of a page's elements: the CPU and the GPU keep keys differently
  int32_t page_tokens = 0;
  int32_t num_layers = 0;    // with their own keys and values
  int32_t num_kv_heads = 0;  // of the whole model
  int32_t key_dim = 0, value_dim = 0;
  int32_t tp_rank = 0, tp_size = 1;
  std::vector<int64_t> windows;  // of each group of layers; 0: none
  int64_t page_bytes = 0;

  bool operator==(const KvDescriptor&) const = default;
};

// What a worker says of itself when it joins. The registry keeps it under the worker's lease.
struct WorkerDescriptor {
  WorkerId id{};
  std::string name;  // for people
  Role role = Role::kBoth;
  WorkerState state = WorkerState::kStarting;
  uint64_t epoch = 0;  // of its role: counts up with every flip
  std::string host;    // where peers reach it (net/)
  uint16_t port = 0;
  std::string transfer;  // opaque address for KV transfer (transfer/)
  KvDescriptor kv;
  // Which model answers, whatever type its weights are held in: requests are routed by it. kv.model is
  // stricter, since pages must be the same to the bit.
  std::string model;
  std::string model_name;  // for people
  int64_t max_sequences = 0, num_pages = 0, max_context = 0;
  uint16_t wire = 4;  // the newest format it reads; version 4 did not say

  // In which one who has these writes to it.
  uint16_t wire_with(const WireVersions& own) const {
    return std::max(own.oldest, std::min(wire, own.newest));
  }

  bool operator==(const WorkerDescriptor&) const = default;
};

// What a worker says of itself many times per second.
struct WorkerLoad {
  int64_t running = 0, waiting = 0;         // choices
  int64_t prefill_tokens = 0;               // of prompts, not yet computed
  int64_t decode_tokens = 0;                // that its requests may still generate
  int64_t pages_total = 0, pages_free = 0;  // free: or held by the prefix cache alone
  double prefill_us_per_token = 0;          // moving averages; 0: not known yet
  double decode_step_us = 0;                // of one step at the present batch
  double bandwidth_share = 0;               // of the memory's, in use; 0..1
  double transfer_bytes_per_s = 0;          // at which its pages reach others; 0: none has yet
};

}  // namespace cheetah::cluster
