// SPDX-License-Identifier: MIT
#pragma once
// Streams beside the harness's own: forked from it and joined to it by events, so that a launch into it still
// means all of the work.
#include <memory>
#include <vector>

#include "gpu/stream.h"
#include "lab/trial.h"

namespace cheetah::lab {

class SideStreams {
 public:
  SideStreams(const Setup& setup, int count) {
    for (int i = 0; i < count; ++i) {
      streams_.push_back(std::make_unique<gpu::Stream>(setup.stream->device()));
      done_.emplace_back();
    }
  }
  int count() const { return static_cast<int>(streams_.size()); }
  gpu::Stream& operator[](int64_t index) const {
    return *streams_[static_cast<size_t>(index) % streams_.size()];
  }

  // What is launched into the first `count` streams from now on comes after what is in `main`.
  void fork(gpu::Stream& main, int count) {
    begun_.record(main);
    for (int i = 0; i < count; ++i) (*this)[i].wait_for(begun_);
  }
  // What is launched into `main` from now on comes after what is in them.
  void join(gpu::Stream& main, int count) {
    for (int i = 0; i < count; ++i) {
      done_[static_cast<size_t>(i)].record((*this)[i]);
      main.wait_for(done_[static_cast<size_t>(i)]);
    }
  }

 private:
  gpu::Event begun_;
  std::vector<std::unique_ptr<gpu::Stream>> streams_;
  std::vector<gpu::Event> done_;
};

}  // namespace cheetah::lab
