// SPDX-License-Identifier: MIT
#pragma once
// The bytes of a GGUF file before its tensors' data.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "model/files/gguf.h"
#include "quantize/planned_file.h"
#include "tensor/shape.h"

namespace cheetah {

struct GgufTensorPlan {
  std::string name;
  DType dtype = DType::kF32;
  Shape shape;  // outermost first
};

// Metadata in the order in which it is put.
class GgufMetadata {
 public:
  void text(std::string_view key, std::string_view value);
  void count(std::string_view key, int64_t value);  // U32
  void number(std::string_view key, double value);  // F32
  void flag(std::string_view key, bool value);
  void texts(std::string_view key, const std::vector<std::string>& values);
  void integers(std::string_view key, const std::vector<int32_t>& values);
  void numbers(std::string_view key, const std::vector<float>& values);
  void copy(std::string_view key, const GgufValue& value);

  const std::string& bytes() const { return bytes_; }
  uint64_t size() const { return size_; }
  bool has(std::string_view key) const;

 private:
  void begin(std::string_view key, GgufType type);
  std::string bytes_;
  std::vector<std::string> keys_;
  uint64_t size_ = 0;
};

// ggml's number of a type, and general.file_type for a file mostly of it. Throws Error for types without one.
uint32_t gguf_type_id(DType dtype);
int64_t gguf_file_type(DType dtype);

FilePlan plan_gguf(const GgufMetadata& metadata, const std::vector<GgufTensorPlan>& tensors);

}  // namespace cheetah
