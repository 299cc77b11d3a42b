// SPDX-License-Identifier: MIT
#pragma once
// Takes tensors out of a checkpoint by name: checks their shapes, converts what must be converted, and in the
// end reports everything that was missing, misshapen or left over in one message.
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/progress.h"
#include "base/thread_pool.h"
#include "model/files/tensor_map.h"
#include "model/model.h"
#include "model/weights.h"

namespace cheetah {

struct WeightSource {
  const TensorMap& tensors;
  std::string what;        // file or directory, for messages
  int64_t fp8_rows = 128;  // block of one scale in FP8 checkpoints
  int64_t fp8_cols = 128;
};

// Rows stored as [heads, parts, rows].
struct HeadParts {
  int64_t heads = 0;
  int64_t parts = 0;
  int64_t rows = 0;
  int64_t total() const { return heads * parts * rows; }
  // Where row i of [parts, heads, rows] is stored.
  int64_t stored(int64_t i) const {
    const int64_t part = i / (heads * rows), head = i / rows % heads;
    return (head * parts + part) * rows + i % rows;
  }
};

class WeightLoader {
 public:
  WeightLoader(const WeightSource& source, const LoadOptions& options, ThreadPool& pool, ModelWeights& into);

  bool has(const std::string& name) const { return source_.tensors.contains(name); }

  // The tensor, marked as used. nullptr when it is missing or has another shape, which finish() will report.
  const TensorView* take(const std::string& name, const Shape& expected);

  // A linear layer's weights [rows, cols]; several such matrices in one tensor are `count` > 1.
  WeightMatrix matrix(const std::string& name, int64_t rows, int64_t cols);
  std::vector<WeightMatrix> matrices(const std::string& name, int64_t count, int64_t rows, int64_t cols);
  // … for those who read the numbers themselves: never in FP8, which has scales.
  WeightMatrix unscaled(const std::string& name, int64_t rows, int64_t cols);
  // In the stored type, whatever the options ask for: tables and small, sensitive matrices.
  WeightMatrix table(const std::string& name, int64_t rows, int64_t cols);
  // Stored [cols, rows].
  WeightMatrix transposed(const std::string& name, int64_t rows, int64_t cols);
  // F32, nullptr when missing.
  const float* vector(const std::string& name, const Shape& shape);

  // Stored with the rows of a head's parts (q, k, v) together; the result has all heads of one part together.
  WeightMatrix parted(const std::string& name, const HeadParts& parts, int64_t cols);
  const float* parted_vector(const std::string& name, const HeadParts& parts);

  // Any tensor with the asked-for conversion applied. keep_type: as stored.
  WeightMatrix prepare(const TensorView& view, bool keep_type);
  // Rows first, first + step, … of the transpose of a [cols, *] tensor in a plain type.
  WeightMatrix transpose(const TensorView& view, int64_t rows, int64_t first, int64_t step);
  // The matrices taken next, `name` first and of so many numbers in all, lie side by side where they are
  // decoded or converted.
  void keep_together(const std::string& name, int64_t numbers);
  // A new owned matrix; fill it through the returned pointer.
  std::byte* own(int64_t bytes);

  ThreadPool& pool() { return pool_; }
  // Throws when anything was missing or misshapen, or is left over and contains none of `ignored`.
  void finish(const std::vector<std::string>& ignored);

 private:
  // fp8_weights.cpp: the scales beside a weight in FP8, and weights with them and without.
  WeightScales take_scales(const std::string& name, const TensorView& view);
  TensorView decoded(const std::string& name, const TensorView& view);
  TensorView decoded(const TensorView& view, const WeightScales& scales);
  WeightMatrix narrowed(const TensorView& view);
  bool wants_fp8() const { return options_.dtype == DType::kF8E4M3; }
  // A checkpoint that has matrices in FP8 left the others in their type on purpose.
  bool keeps_others() const { return wants_fp8() && has_fp8_; }
  TensorView as_usable(const TensorView& view);
  WeightMatrix convert(const TensorView& view, DType target);
  DType fitting(DType wanted, int64_t cols);
  void touch(const TensorView& view);
  void was_read(const TensorView& view);  // tells those who watch
  void problem(std::string line);

  const WeightSource& source_;
  const LoadOptions& options_;
  ThreadPool& pool_;
  ModelWeights& into_;
  const int64_t total_bytes_;
  int64_t read_bytes_ = 0;
  Progress progress_;
  std::set<std::string, std::less<>> used_;
  std::set<std::string> noted_;
  std::vector<std::string> problems_;
  int64_t num_problems_ = 0;
  bool has_fp8_ = false;
};

}  // namespace cheetah
