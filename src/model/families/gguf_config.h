// SPDX-License-Identifier: MIT
#pragma once
// What GGUF architectures share in reading a file's metadata: checked "<arch>.NAME" keys, sizes, rotary
// embeddings.
#include <cstdint>
#include <string>
#include <string_view>

#include "model/families/config.h"
#include "model/files/gguf.h"

namespace cheetah {

class GgufConfig {
 public:
  explicit GgufConfig(const GgufFile& file);

  const GgufFile& file() const { return file_; }
  const std::string& architecture() const { return architecture_; }
  bool has(std::string_view name) const { return file_.find(key(name)) != nullptr; }
  bool has_tensor(const std::string& name) const { return file_.tensors().contains(name); }

  int64_t integer(std::string_view name, int64_t low, int64_t high) const;
  int64_t integer_or(std::string_view name, int64_t fallback, int64_t low, int64_t high) const;
  double positive(std::string_view name) const;
  double positive_or(std::string_view name, double fallback) const;
  bool boolean_or(std::string_view name, bool fallback) const;
  std::string string_or(std::string_view name, std::string fallback) const;
  // A small F32 tensor, e.g. rotary factors; empty where absent.
  std::vector<double> numbers_of_tensor(const std::string& name, int64_t count) const;

  [[noreturn]] void reject(std::string_view name, const std::string& found, const std::string& rule) const;

 private:
  std::string key(std::string_view name) const;
  const GgufFile& file_;
  std::string architecture_;
};

// Sizes, norms, names and the rotary embedding of a llama-like architecture.
FamilyModel read_gguf_base(const GgufConfig& config);
// With the scaling the file states. yarn_truncates: whether the ramp's ends are rounded.
RopeTraits read_gguf_rope(const GgufConfig& config, int64_t rotary_dim, bool yarn_truncates);
void read_gguf_experts(const GgufConfig& config, ModelTraits& traits);
void read_gguf_expert_groups(const GgufConfig& config, MoeTraits& moe);  // and shared experts
void read_gguf_gating(const GgufConfig& config, int64_t default_function, FamilyModel& model);
void read_gguf_glm4_moe(const GgufConfig& config, FamilyModel& model);
// Layers whose index is not the last of each `period` are sliding.
void set_periodic_windows(ModelTraits& traits, int64_t window, int64_t period);

struct GgufArchitecture {
  std::string_view name;
  std::string_view family;  // the Hugging Face family it is
  void (*refine)(const GgufConfig& config, FamilyModel& model);
};
std::span<const GgufArchitecture> gguf_architectures();

// Throws Error for an unknown general.architecture, listing the known ones.
FamilyModel read_gguf_family(const GgufFile& file);

}  // namespace cheetah
