// SPDX-License-Identifier: MIT
#pragma once
// A recorded sequence of launches that the device runs with one call.
#include <functional>
#include <utility>

#include "gpu/stream.h"

struct CUgraphExec_st;

namespace cheetah::gpu {

// Owns an executable graph. Pointers and sizes are those of the recording; what they point at may change.
class Graph {
 public:
  Graph() = default;
  // Runs `work`, which launches into `stream` without waiting or allocating, and keeps what it launched.
  // Nothing runs on the device yet. Throws what `work` throws.
  static Graph record(Stream& stream, const std::function<void()>& work);
  Graph(Graph&& other) noexcept
      : exec_(std::exchange(other.exec_, nullptr)), num_nodes_(std::exchange(other.num_nodes_, 0)) {}
  Graph& operator=(Graph&& other) noexcept {
    std::swap(exec_, other.exec_);
    std::swap(num_nodes_, other.num_nodes_);
    return *this;
  }
  ~Graph();

  explicit operator bool() const { return exec_ != nullptr; }
  int64_t num_nodes() const { return num_nodes_; }
  void launch(Stream& stream) const;

 private:
  CUgraphExec_st* exec_ = nullptr;
  int64_t num_nodes_ = 0;
};

}  // namespace cheetah::gpu
