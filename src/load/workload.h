// SPDX-License-Identifier: MIT
#pragma once
// What is asked: lengths and texts of requests, as a function of a seed and the request's number.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"

namespace cheetah {

// A stretch of made-up text. The same id and seed give the same words, so pieces with one id share a prefix.
struct TextPiece {
  uint64_t id = 0;
  int64_t tokens = 0;
};

// One request before it has words.
struct RequestShape {
  std::vector<TextPiece> pieces;  // made-up text; empty when the file brings its own
  std::string prompt;             // from a file
  Json messages;                  // from a file; null: none
  int64_t output_tokens = 0;
  std::optional<double> arrival_s;  // from a trace

  int64_t prompt_tokens() const;  // of the pieces
};

enum class DatasetKind { kRandom, kShareGptLike, kPrefixHeavy, kFile };

struct WorkloadPlan {
  DatasetKind kind = DatasetKind::kRandom;
  std::string file;           // of kFile
  int64_t prompt_tokens = 0;  // mean; of kPrefixHeavy: what follows the prefix
  int64_t output_tokens = 0;  // mean
  double spread = 0;          // of kRandom and kPrefixHeavy: lengths lie evenly in mean * (1 ± spread)
  int64_t prefix_tokens = 1024;
  double prefix_share = 0.9;  // of the requests; the others begin with a text of their own, as long
  int64_t num_prefixes = 1;
  uint64_t seed = 0;
};

// "random", "sharegpt-like", "prefix-heavy", else the path of a JSON Lines file. Lengths of 0 become the
// dataset's own: 512 and 128; 161 and 338, the means of ShareGPT conversations in the literature; 64 and 64.
WorkloadPlan workload_plan_from(const std::string& dataset, int64_t prompt_tokens, int64_t output_tokens);
const char* name_of(DatasetKind kind);

// Requests by number. A file's are repeated when more are asked for.
class Workload {
 public:
  explicit Workload(const WorkloadPlan& plan);
  RequestShape shape(int64_t index) const;
  int64_t size() const { return static_cast<int64_t>(from_file_.size()); }  // 0: without end
  bool is_made_up() const;  // some request needs made-up words
  const WorkloadPlan& plan() const { return plan_; }

 private:
  WorkloadPlan plan_;
  std::vector<RequestShape> from_file_;
};

// Requests of a JSON Lines file. A line has "prompt" or "messages", or lengths alone ("input_length" and
// "output_length", with "hash_ids" naming 512-token blocks, as the Mooncake traces have them), and may have
// "timestamp" in milliseconds. Throws Error naming the line.
std::vector<RequestShape> read_workload_file(const std::string& path, int64_t default_output_tokens);

// How many tokens of the server's tokenizer our words make, learned from two answers' usage.
struct TokenScale {
  double tokens_per_word = 1.3;
  double overhead_tokens = 0;  // of the chat template
};

// The words prompts are made of, and the first of them, separated by spaces.
constexpr int64_t kNumWords = 128;
std::string first_words(int64_t count);
// `num_words` words, separated by spaces, that depend on seed and id alone.
std::string made_up_text(uint64_t seed, uint64_t id, int64_t num_words);

struct BodyOptions {
  bool chat = true;
  std::string model{};
  std::optional<double> temperature{};
  bool ignore_eos = false;
  int64_t id_limit = 0;         // prompts are token ids below this, of exact length; 0: they are text
  Json extra = Json::object();  // merged over everything else

  // Made-up prompts as ids need no tokenizer: neither ours nor, in the server, any at all.
  bool sends_ids() const { return id_limit > 0; }
};

// The JSON body that asks for a streamed answer. Throws Error when messages meet the completions endpoint.
std::string request_body(
    const RequestShape& shape, uint64_t seed, const TokenScale& scale, const BodyOptions& options);

}  // namespace cheetah
