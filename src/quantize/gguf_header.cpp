// SPDX-License-Identifier: MIT
#include "quantize/gguf_header.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/error.h"
#include "base/format.h"

namespace cheetah {
namespace {

constexpr int64_t kAlignment = 32;

struct TypeIds {
  DType dtype;
  uint32_t type;
  int64_t file_type;
};
// ggml's numbers.
constexpr std::array kTypeIds = {TypeIds{DType::kF32, 0, 0}, TypeIds{DType::kF16, 1, 1},
    TypeIds{DType::kQ4_0, 2, 2}, TypeIds{DType::kQ4_1, 3, 3}, TypeIds{DType::kQ5_0, 6, 8},
    TypeIds{DType::kQ5_1, 7, 9}, TypeIds{DType::kQ8_0, 8, 7}, TypeIds{DType::kQ4_K, 12, 14},
    TypeIds{DType::kQ5_K, 13, 16}, TypeIds{DType::kQ6_K, 14, 18}, TypeIds{DType::kBF16, 30, 32},
    TypeIds{DType::kMXFP4, 39, 38}};

const TypeIds& ids_of(DType dtype) {
  const auto at = std::ranges::find(kTypeIds, dtype, &TypeIds::dtype);
  if (at == kTypeIds.end()) throw Error(format("GGUF has no type {}", name_of(dtype)));
  return *at;
}

template <class T>
void append(std::string& to, T value) {
  to.append(reinterpret_cast<const char*>(&value), sizeof value);
}

void append_text(std::string& to, std::string_view text) {
  append(to, static_cast<uint64_t>(text.size()));
  to += text;
}

}  // namespace

uint32_t gguf_type_id(DType dtype) { return ids_of(dtype).type; }
int64_t gguf_file_type(DType dtype) { return ids_of(dtype).file_type; }

bool GgufMetadata::has(std::string_view key) const { return std::ranges::count(keys_, key) > 0; }

void GgufMetadata::begin(std::string_view key, GgufType type) {
  CHEETAH_ASSERT(!has(key), "a key stands once");
  keys_.emplace_back(key);
  append_text(bytes_, key);
  append(bytes_, static_cast<uint32_t>(type));
  ++size_;
}

void GgufMetadata::text(std::string_view key, std::string_view value) {
  begin(key, GgufType::kString);
  append_text(bytes_, value);
}

void GgufMetadata::count(std::string_view key, int64_t value) {
  begin(key, GgufType::kU32);
  append(bytes_, static_cast<uint32_t>(value));
}

void GgufMetadata::number(std::string_view key, double value) {
  begin(key, GgufType::kF32);
  append(bytes_, static_cast<float>(value));
}

void GgufMetadata::flag(std::string_view key, bool value) {
  begin(key, GgufType::kBool);
  append(bytes_, static_cast<uint8_t>(value));
}

void GgufMetadata::texts(std::string_view key, const std::vector<std::string>& values) {
  begin(key, GgufType::kArray);
  append(bytes_, static_cast<uint32_t>(GgufType::kString));
  append(bytes_, static_cast<uint64_t>(values.size()));
  for (const std::string& value : values) append_text(bytes_, value);
}

void GgufMetadata::integers(std::string_view key, const std::vector<int32_t>& values) {
  begin(key, GgufType::kArray);
  append(bytes_, static_cast<uint32_t>(GgufType::kI32));
  append(bytes_, static_cast<uint64_t>(values.size()));
  for (const int32_t value : values) append(bytes_, value);
}

void GgufMetadata::numbers(std::string_view key, const std::vector<float>& values) {
  begin(key, GgufType::kArray);
  append(bytes_, static_cast<uint32_t>(GgufType::kF32));
  append(bytes_, static_cast<uint64_t>(values.size()));
  for (const float value : values) append(bytes_, value);
}

void GgufMetadata::copy(std::string_view key, const GgufValue& value) {
  begin(key, value.is_array ? GgufType::kArray : value.type);
  if (value.is_array) {
    append(bytes_, static_cast<uint32_t>(value.type));
    append(bytes_, static_cast<uint64_t>(value.count));
  }
  bytes_.append(reinterpret_cast<const char*>(value.bytes.data()), value.bytes.size());
}

FilePlan plan_gguf(const GgufMetadata& metadata, const std::vector<GgufTensorPlan>& tensors) {
  FilePlan plan;
  plan.header = "GGUF";
  append(plan.header, uint32_t{3});
  append(plan.header, static_cast<uint64_t>(tensors.size()));
  append(plan.header, metadata.size());
  plan.header += metadata.bytes();
  const auto aligned = [](int64_t size) { return (size + kAlignment - 1) / kAlignment * kAlignment; };
  int64_t at = 0;
  for (const GgufTensorPlan& tensor : tensors) {
    append_text(plan.header, tensor.name);
    append(plan.header, static_cast<uint32_t>(tensor.shape.rank()));
    for (int axis = tensor.shape.rank() - 1; axis >= 0; --axis)
      append(plan.header, static_cast<uint64_t>(tensor.shape[axis]));
    append(plan.header, gguf_type_id(tensor.dtype));
    append(plan.header, static_cast<uint64_t>(at));
    const int64_t cols = tensor.shape.back();
    const int64_t bytes = tensor.shape.elements() / cols * row_bytes(tensor.dtype, cols);
    plan.pieces[tensor.name] = {.offset = at, .bytes = bytes};
    at = aligned(at + bytes);
  }
  if (!tensors.empty()) plan.header.resize(static_cast<size_t>(aligned(std::ssize(plan.header))), '\0');
  for (auto& [name, piece] : plan.pieces) piece.offset += std::ssize(plan.header);
  plan.total_bytes = std::ssize(plan.header) + at;
  return plan;
}

}  // namespace cheetah
