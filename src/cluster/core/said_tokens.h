// SPDX-License-Identifier: MIT
#pragma once
// What a worker said of requests that ended or were lost with their router, for a while: their clients may come back
// for the rest.
#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <vector>

#include "cluster/types.h"
#include "engine/request.h"

namespace cheetah::cluster {

struct SaidTokens {
  std::string recall;  // as its router called it; empty: nobody will ask
  int64_t max_tokens = 0, min_tokens = 0;
  std::vector<std::vector<int32_t>> choices{};

  // Of a choice, from this place on. Tokens of a second attempt may overlap those of the first.
  void add(size_t choice, int64_t first_index, const std::vector<GeneratedToken>& tokens);
  void begin(size_t choice, const std::vector<int32_t>& tokens);  // said by another worker
  int64_t size() const;
};

// At most so many tokens, the oldest go first.
class RememberedAnswers {
 public:
  RememberedAnswers(Duration time, int64_t most_tokens) : time_(time), most_tokens_(most_tokens) {}
  void add(SaidTokens said, Time now);
  const SaidTokens* find(const std::string& recall, Time now) const;

 private:
  struct Kept {
    SaidTokens said;
    Time until{};
    uint64_t number = 0;
  };
  struct Age {
    std::string recall;
    uint64_t number = 0;
    Time until{};
  };
  void forget_oldest();

  Duration time_;
  int64_t most_tokens_;
  int64_t tokens_ = 0;
  uint64_t next_ = 0;
  std::map<std::string, Kept> kept_;
  std::deque<Age> ages_;  // oldest first; an answer that was kept again stands there twice
};

}  // namespace cheetah::cluster
