// SPDX-License-Identifier: MIT
#pragma once
// Recorded decode steps.
#include <vector>

#include "gpu/graph.h"
#include "model/cuda/decode_shape.h"

namespace cheetah {

// Owns the graphs of the shapes used last. The first step of a shape runs without one, so that everything it
// needs has been allocated when the second is recorded.
class StepGraphs {
 public:
  explicit StepGraphs(size_t capacity = 32) : capacity_(capacity) {}

  const gpu::Graph* find(const DecodeShape& shape);
  // Tells whether the shape came before since the last clear(), and remembers it.
  bool seen_before(const DecodeShape& shape);
  const gpu::Graph& add(const DecodeShape& shape,
      gpu::Graph graph);  // in the place of the least recently used
  void clear();
  void count_rows(int64_t rows, const DecodeShape& shape);

  size_t size() const { return entries_.size(); }
  const GraphUse& use() const { return use_; }

 private:
  struct Entry {
    DecodeShape shape;
    gpu::Graph graph;
    int64_t last_used = 0;
  };
  size_t capacity_;
  std::vector<Entry> entries_;
  std::vector<DecodeShape> seen_;
  int64_t now_ = 0;
  GraphUse use_;
};

}  // namespace cheetah
