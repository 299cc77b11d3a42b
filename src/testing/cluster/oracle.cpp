// SPDX-License-Identifier: MIT
#include "testing/cluster/oracle.h"

#include <algorithm>
#include <numeric>

namespace cheetah::cluster::simulation {
namespace {

uint64_t prompt_hash(const GenerationRequest& request) {
  uint64_t hash = mix(request.seed, request.prompt.size());
  for (const int32_t token : request.prompt) hash = mix(hash, static_cast<uint64_t>(token));
  return hash;
}

OracleChoice choice_of(const GenerationRequest& request, uint64_t hash, int choice) {
  OracleChoice answer;
  const uint64_t stream = mix(hash, static_cast<uint64_t>(choice) + 1);
  const auto natural = static_cast<int64_t>(1 + stream % 20);
  const int64_t length = std::min(request.max_tokens, natural);
  answer.finish = length < natural ? FinishReason::kLength : FinishReason::kStop;
  for (int64_t i = 0; i < length; ++i)
    answer.tokens.push_back(static_cast<int32_t>(mix(stream, static_cast<uint64_t>(i)) % 50000));
  return answer;
}

}  // namespace

uint64_t mix(uint64_t a, uint64_t b) {
  uint64_t value = (a ^ (b + 0x9e3779b97f4a7c15u + (a << 6) + (a >> 2))) * 0xff51afd7ed558ccdu;
  value = (value ^ (value >> 33)) * 0xc4ceb9fe1a85ec53u;
  return value ^ (value >> 33);
}

std::vector<OracleChoice> oracle_answer(const GenerationRequest& request) {
  const uint64_t hash = prompt_hash(request);
  const int generated = std::max(request.n, request.best_of);
  std::vector<int> order(static_cast<size_t>(generated));
  std::iota(order.begin(), order.end(), 0);
  if (request.best_of > request.n)  // "the best" are those with the largest hash
    std::sort(order.begin(), order.end(), [&](int a, int b) {
      return mix(hash, static_cast<uint64_t>(a) + 77) > mix(hash, static_cast<uint64_t>(b) + 77);
    });
  std::vector<OracleChoice> answer;
  for (int i = 0; i < request.n; ++i)
    answer.push_back(choice_of(request, hash, order[static_cast<size_t>(i)]));
  return answer;
}

std::string oracle_text(std::span<const int32_t> tokens) {
  std::string text;
  for (const int32_t token : tokens) text += static_cast<char>('a' + token % 26);
  return text;
}

float oracle_embedding(const GenerationRequest& request) {
  return static_cast<float>(prompt_hash(request) % 4096);
}

std::vector<uint64_t> page_names(std::span<const int32_t> tokens, const std::string& salt) {
  uint64_t hash = 17;
  for (const char byte : salt) hash = mix(hash, static_cast<uint64_t>(byte));
  std::vector<uint64_t> names;
  for (size_t i = 0; i + kPageTokens <= tokens.size(); i += kPageTokens) {
    for (size_t j = i; j < i + kPageTokens; ++j) hash = mix(hash, static_cast<uint64_t>(tokens[j]));
    names.push_back(hash);
  }
  return names;
}

uint64_t checksum(std::span<const uint64_t> pages) {
  uint64_t sum = 1;
  for (const uint64_t page : pages) sum = mix(sum, page);
  return sum;
}

}  // namespace cheetah::cluster::simulation
