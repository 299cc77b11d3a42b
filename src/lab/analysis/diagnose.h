// SPDX-License-Identifier: MIT
#pragma once
// From counters to a verdict: which limit a kernel runs into, how we know, what to try in which order, and
// what should then change. Pure.
#include <string>
#include <vector>

#include "lab/analysis/counters.h"

namespace cheetah::analysis {

enum class Regime {
  kUnclear,
  kHost,             // the GPU waits for the program
  kUnderutilised,    // too little work to fill the GPU
  kCompute,          // the math pipes are the limit
  kBandwidth,        // memory bandwidth is the limit
  kOnChip,           // the caches or shared memory are the limit
  kLatency,          // warps wait and nothing is busy
  kSynchronisation,  // warps wait for each other, or for instructions
  kDivergence,       // lanes go different ways
  kAccess,           // traffic is wasted
};
std::string_view name_of(Regime regime);

enum class Strength { kNote, kLikely, kSure };
std::string_view name_of(Strength strength);

struct Finding {
  std::string id = {};  // of the rule: "M1"
  std::string title = {};
  Strength strength = Strength::kSure;
  std::vector<std::string> evidence = {};
  std::vector<std::string> remedies = {};  // in the order to try
  std::vector<std::string> expect = {};    // of the next run, if a remedy works
};

// A rule that could not be judged, and what it lacked.
struct Unjudged {
  std::string id, title;
  std::vector<std::string> missing;  // counters
  std::string collect;               // the ncu flags that gather them; "" when ncu cannot
};

struct Diagnosis {
  Counters counters;
  Regime regime = Regime::kUnclear;
  std::string primary;            // the finding the regime follows from; "" when there is none
  std::vector<Finding> findings;  // the primary one first
  std::vector<Unjudged> unjudged;
  std::vector<std::string> next;  // how to go on

  const Finding* find(std::string_view id) const;
};

Diagnosis diagnose(const Counters& counters);

// The same kernel before and after a change.
struct Comparison {
  double speedup = 0;  // before over after; 0 when neither time nor rate is known
  std::vector<std::string> cleared, appeared, stayed;  // ids of findings, notes left out
  std::vector<std::string> moved;                      // "DRAM in use, %: 25 -> 90"
  std::string verdict;
};
Comparison compare(const Diagnosis& before, const Diagnosis& after);

// Texts for people and for programs.
std::string diagnosis_text(const Diagnosis& diagnosis);
Json diagnosis_json(const Diagnosis& diagnosis);
std::string comparison_text(const Comparison& comparison);
Json comparison_json(const Comparison& comparison);

}  // namespace cheetah::analysis
