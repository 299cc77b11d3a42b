// SPDX-License-Identifier: MIT
#pragma once
// One model on disk, whatever its format: a Hugging Face directory, one .safetensors file beside its
// config.json, or a GGUF file (split ones are opened together).
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "model/files/gguf.h"
#include "model/files/safetensors.h"
#include "model/files/tensor_map.h"

namespace cheetah {

// Owns the mapped files; the tensor views live as long as it does. Movable.
class Checkpoint {
 public:
  enum class Kind { kHuggingFace, kGguf };

  // Throws Error with one sentence that says what the path is instead, or which piece is missing.
  static Checkpoint open(const std::string& path);

  Kind kind() const { return gguf_ ? Kind::kGguf : Kind::kHuggingFace; }
  const std::string& path() const { return path_; }  // as given to open()
  const TensorMap& tensors() const { return tensors_; }
  int64_t file_bytes() const;  // of the weight files

  // config.json and generation_config.json; empty objects for GGUF, and where the latter is absent.
  const Json& config() const { return config_; }
  const Json& generation_config() const { return generation_config_; }
  const GgufFile* gguf() const { return gguf_ ? &*gguf_ : nullptr; }

  // The text of a small file of the model's directory ("tokenizer.json", "chat_template.jinja", ...);
  // nullopt when it is not there. Always nullopt for GGUF: its file carries everything.
  std::optional<std::string> text_file(std::string_view name) const;

  // Asks the kernel to start reading all weights.
  void prefetch() const;

 private:
  Checkpoint() = default;
  static Checkpoint open_directory(const std::string& path);
  void read_configs();
  void add_shard(const std::string& file_name);
  void open_index(const std::string& index_name);

  std::string path_;
  std::string directory_;  // empty for GGUF
  Json config_ = Json::object();
  Json generation_config_ = Json::object();
  std::optional<GgufFile> gguf_;
  std::vector<SafetensorsFile> shards_;
  TensorMap tensors_;
};

}  // namespace cheetah
