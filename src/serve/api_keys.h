// SPDX-License-Identifier: MIT
#pragma once
// Who may use the server, and how much. Keys are kept only as SHA-256; every comparison takes the same time.
#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "serve/http/network_thread.h"

namespace cheetah {

struct KeyLimits {
  double requests_per_minute = 0;  // 0: no limit
  int64_t concurrent = 0;          // 0: no limit
};

// The holder of one key, or everyone where no keys are asked for. Counters are for any thread.
class Tenant {
 public:
  Tenant(std::string name, std::string cache_salt, const KeyLimits& limits)
      : name_(std::move(name)), cache_salt_(std::move(cache_salt)), limits_(limits) {}

  const std::string& name() const { return name_; }
  const std::string& cache_salt() const { return cache_salt_; }

  // Seconds to wait before the next request may come; nullopt: it may come now, and was counted. The rate is
  // kept by the generic cell rate algorithm: one number, the time at which the bucket is empty again.
  std::optional<double> over_rate(ServeTime now);
  // False: as many requests run as may. Otherwise release() must follow.
  bool try_acquire();
  void release() { --running_; }

 private:
  std::string name_;
  std::string cache_salt_;
  KeyLimits limits_;
  std::atomic<int64_t> running_ = 0;
  std::atomic<int64_t> empty_at_ns_ = 0;
};

class ApiKeys {
 public:
  ApiKeys();  // no keys: everyone is one tenant

  // Lines "KEY", "NAME KEY" or "NAME KEY rpm=60 concurrent=4"; # begins a comment. Throws UsageError naming
  // `what` and the line.
  static ApiKeys parse(std::string_view text, const std::string& what, const KeyLimits& defaults);
  void add(std::string name, std::string_view key, const KeyLimits& limits);

  bool required() const { return !entries_.empty(); }
  size_t size() const { return entries_.size(); }
  bool shares_a_key_with(const ApiKeys& other) const;
  // The tenant of a key; nullptr: there is none. Without keys, everyone, whatever they send.
  std::shared_ptr<Tenant> find(std::string_view key) const;

 private:
  using Digest = std::array<unsigned char, 32>;
  struct Entry {
    Digest digest;
    std::shared_ptr<Tenant> tenant;  // shared with the requests it runs
  };
  static Digest digest_of(std::string_view key);
  void add_line(std::string_view line, const std::string& where, const KeyLimits& defaults);
  std::vector<Entry> entries_;
  std::shared_ptr<Tenant> everyone_;
};

}  // namespace cheetah
