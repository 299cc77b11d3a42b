// SPDX-License-Identifier: MIT
#pragma once
// The model that is quantized: its tensors as numbers, whatever they are stored in.
#include <cstdint>
#include <string>
#include <vector>

#include "kernels/gemm/gemm.h"
#include "model/model_header.h"
#include "model/packed/unpack.h"

namespace cheetah {

// A linear layer's matrix: what quantization is about. Embeddings, norms, routers and heads are not among
// them.
struct LinearTensor {
  std::string name;  // with ".weight"
  int64_t layer = 0;
  int64_t rows = 0;
  int64_t cols = 0;
};

class SourceModel {
 public:
  SourceModel(const std::string& path, ThreadPool& pool);

  const std::string& path() const { return checkpoint_.path(); }
  const Checkpoint& checkpoint() const { return checkpoint_; }
  const FamilyModel& family() const { return family_; }
  const TensorMap& tensors() const { return unpacked_.tensors; }
  ThreadPool& pool() const { return pool_; }
  bool has(const std::string& name) const { return tensors().contains(name); }
  const TensorView& tensor(const std::string& name) const;  // throws Error
  // Scales that belong to a weight in FP8 and go with it.
  bool is_companion(const std::string& name) const;

  const std::vector<LinearTensor>& linears() const { return linears_; }
  const LinearTensor* linear(const std::string& name) const;  // nullptr: not one
  // -1: outside the layers.
  int64_t layer_of(const std::string& name) const;
  // The prefix of a layer's names.
  std::string layer_root(int64_t layer) const;

  // The tensor as rows of its last dimension. Throws Error for numbers that are not finite.
  std::vector<float> read(const std::string& name) const;
  void read_row(const std::string& name, int64_t row, float* to) const;

 private:
  void list_linears();
  WeightMatrix matrix(const std::string& name) const;
  Checkpoint checkpoint_;
  FamilyModel family_;
  ThreadPool& pool_;
  UnpackedTensors unpacked_;
  std::string root_;
  std::vector<LinearTensor> linears_;
  int64_t fp8_rows_ = 128, fp8_cols_ = 128;
  std::map<std::string, std::vector<float>, std::less<>> fp8_scales_;
};

}  // namespace cheetah
