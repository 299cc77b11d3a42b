// SPDX-License-Identifier: MIT
#pragma once
// The safetensors format: a JSON header and the tensors' bytes, mapped and bounds-checked.
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>

#include "base/mapped_file.h"
#include "model/files/tensor_map.h"

namespace cheetah {

// One file. The views point into it and may be unaligned: the format aligns the data only by convention, so
// kernels load with unaligned instructions or memcpy.
class SafetensorsFile {
 public:
  // Throws Error with one sentence for anything that breaks the format or its limits.
  static SafetensorsFile open(const std::string& path);
  // The same over bytes in memory, which must outlive the result; `name` is used in messages.
  static SafetensorsFile parse(std::span<const std::byte> bytes, const std::string& name);

  const std::string& name() const { return name_; }
  const TensorMap& tensors() const { return tensors_; }
  const std::map<std::string, std::string>& metadata() const { return metadata_; }
  int64_t file_bytes() const { return file_bytes_; }
  void prefetch() const;

 private:
  std::string name_;
  std::optional<MappedFile> file_;  // nullopt when parsed from memory
  int64_t file_bytes_ = 0;
  std::map<std::string, std::string> metadata_;
  TensorMap tensors_;
};

}  // namespace cheetah
