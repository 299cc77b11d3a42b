// SPDX-License-Identifier: MIT
#pragma once
// A model as a GGUF file lays it out: llama.cpp's names, orders and metadata for what a source holds.
#include <string>
#include <vector>

#include "quantize/gguf_header.h"
#include "quantize/source_model.h"

namespace cheetah {

// One tensor of the file and what it is made of.
struct GgufTensorSource {
  enum class Role { kMatrix, kEmbedding, kOutput, kPlain };  // kPlain stays F32

  std::string name;
  Role role = Role::kPlain;
  Shape shape = {};
  std::vector<std::string> parts = {};  // tensors of the source, one after another; empty: `numbers`
  int64_t first_row = 0;                // of a part, where only some of its rows are taken
  int64_t rows = 0;                     // of a part; 0: all
  int64_t paired_heads = 0;             // rows change to interleaved rotary pairs, a head at a time

  std::vector<float> numbers = {};
  const LinearTensor* linear = nullptr;  // whose inputs were calibrated
};

struct GgufModel {
  GgufMetadata metadata;  // without general.file_type
  std::vector<GgufTensorSource> tensors;
};

// From a GGUF file its own metadata and names. Throws Error for a family or a tokenizer that has no such form
// here.
GgufModel describe_gguf(const SourceModel& source);

// tokenizer.ggml.* of a tokenizer.json; checked to split a probe text as the source does.
void put_gguf_tokenizer(const SourceModel& source, GgufMetadata& metadata);

}  // namespace cheetah
