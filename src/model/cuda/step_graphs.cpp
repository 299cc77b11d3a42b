// SPDX-License-Identifier: MIT
#include "model/cuda/step_graphs.h"

#include <algorithm>

namespace cheetah {

const gpu::Graph* StepGraphs::find(const DecodeShape& shape) {
  const auto entry = std::ranges::find(entries_, shape, &Entry::shape);
  if (entry == entries_.end()) return nullptr;
  entry->last_used = ++now_;
  ++use_.launched;
  return &entry->graph;
}

bool StepGraphs::seen_before(const DecodeShape& shape) {
  if (std::ranges::find(seen_, shape) != seen_.end()) return true;
  seen_.push_back(shape);
  return false;
}

const gpu::Graph& StepGraphs::add(const DecodeShape& shape, gpu::Graph graph) {
  if (entries_.size() == capacity_) entries_.erase(std::ranges::min_element(entries_, {}, &Entry::last_used));
  entries_.push_back({shape, std::move(graph), ++now_});
  ++use_.recorded;
  ++use_.launched;
  return entries_.back().graph;
}

void StepGraphs::clear() {
  entries_.clear();
  seen_.clear();
}

void StepGraphs::count_rows(int64_t rows, const DecodeShape& shape) {
  use_.rows += rows;
  use_.padded_rows += shape.rows - rows;
}

}  // namespace cheetah
