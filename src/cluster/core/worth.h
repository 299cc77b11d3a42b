#pragma once
// Is it worth it? Time to first token with the prompt computed where it is decoded against computed
// elsewhere, measured on the live traffic for each size of prompt. Where elsewhere loses, prompts of that
// size stay, and a small share still goes so that the answer can change. Pure; the share is a count, not
// chance.
#include <array>
#include <cstdint>
#include <string>

#include "cluster/wire/message.h"

namespace cheetah::cluster {

struct WorthConfig {
  bool enabled = true;
  int64_t min_samples = 8;     // of each way in a bucket before anything is said
  double margin = 1.05;        // elsewhere loses when its mean is more than this times the other's
  double smoothing = 0.1;      // of the moving averages
  int64_t explore_every = 20;  // of the requests of a bucket, one goes the way that lost
};

class Worth {
 public:
  explicit Worth(const WorthConfig& config = {}) : config_(config) {}

  struct Verdict {
    PrefillMode mode = PrefillMode::kLocal;
    bool changed = false;  // from what was asked
    std::string why;       // with changed
  };
  // What to do with a prompt of which `effective_tokens` are to be computed and that `wanted` would be right
  // for.
  Verdict judge(int64_t effective_tokens, PrefillMode wanted);
  void record(int64_t effective_tokens, PrefillMode mode, Microseconds first_token);

  struct Bucket {                // of 2^i <= tokens < 2^(i+1)
    double mean_us[2] = {0, 0};  // by mode
    int64_t samples[2] = {0, 0};
    int64_t asked = 0;
  };
  static constexpr size_t kBuckets = 24;
  const std::array<Bucket, kBuckets>& buckets() const { return buckets_; }
  static size_t bucket_of(int64_t tokens);

 private:
  WorthConfig config_;
  std::array<Bucket, kBuckets> buckets_{};
};

}  // namespace cheetah::cluster
