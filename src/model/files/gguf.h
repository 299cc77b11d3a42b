// SPDX-License-Identifier: MIT
#pragma once
// GGUF v2 and v3: metadata (also the vocabulary and the chat template) and tensors, mapped and
// bounds-checked.
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/mapped_file.h"
#include "model/files/tensor_map.h"

namespace cheetah {

enum class GgufType : uint32_t {
  kU8 = 0,
  kI8,
  kU16,
  kI16,
  kU32,
  kI32,
  kF32,
  kBool,
  kString,
  kArray,
  kU64,
  kI64,
  kF64,
};

// A checked view of one metadata value in the file's bytes; arrays are not copied.
struct GgufValue {
  GgufType type = GgufType::kU8;  // of the value, or of an array's elements
  bool is_array = false;
  int64_t count = 1;                 // array elements
  std::span<const std::byte> bytes;  // the payload (for strings: length-prefixed, one after another)
};

class GgufFile {
 public:
  // Throws Error with one sentence for anything that breaks the format or its limits.
  // Any part of a split model (NAME-00001-of-00003.gguf) opens the whole.
  static GgufFile open(const std::string& path);
  // The same over bytes in memory, which must outlive the result; `name` is used in messages.
  static GgufFile parse(std::span<const std::byte> bytes, const std::string& name);

  const std::string& name() const { return name_; }
  const GgufValue* find(std::string_view key) const;

  // Typed access. nullopt (or an empty list) when the key is absent; Error when it is there with another
  // type.
  std::optional<int64_t> integer(std::string_view key) const;
  std::optional<double> number(std::string_view key) const;
  std::optional<bool> boolean(std::string_view key) const;
  std::optional<std::string_view> string(std::string_view key) const;
  std::vector<std::string_view> strings(std::string_view key) const;
  std::vector<double> numbers(std::string_view key) const;    // any number type
  std::vector<int64_t> integers(std::string_view key) const;  // any integer or bool type

  const TensorMap& tensors() const { return tensors_; }
  int64_t file_bytes() const;  // of all parts; 0 when parsed from memory
  void prefetch() const;       // asks the kernel to start reading all of it

  std::map<std::string, GgufValue, std::less<>> const& metadata() const { return metadata_; }

 private:
  void add_part(MappedFile file, int64_t index, int64_t count);

  std::string name_;
  std::vector<MappedFile> files_;  // empty when parsed from memory; several for a split model
  std::map<std::string, GgufValue, std::less<>> metadata_;
  TensorMap tensors_;
};

}  // namespace cheetah
