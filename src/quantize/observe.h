// SPDX-License-Identifier: MIT
#pragma once
// Runs a model and looks at what its linear layers are given.
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "kernels/context.h"
#include "model/model.h"
#include "model/weights.h"
#include "quantize/moments.h"
#include "quantize/source_model.h"

namespace cheetah {

// Linear layers that read the same numbers share the moments of one of them.
class InputSites {
 public:
  InputSites(const SourceModel& source, const Model& model);

  // Begins to collect for layers first .. first + count - 1 and forgets all others.
  void collect(int64_t first, int64_t count);
  // Bytes of the moments of one layer.
  int64_t bytes_of(int64_t layer) const;
  // nullptr: no such site, or not collected.
  Moments* find(const std::string& linear);

  // Rows that go into the product with the matrix at `data`.
  void see(const std::byte* data, const float* x, int64_t stride, int64_t rows, const CpuContext& context);

 private:
  struct Site {
    int64_t layer = 0;
    Moments moments = {};
  };
  void add(int64_t layer, const WeightMatrix& leader, const std::vector<std::string>& names);
  const SourceModel& source_;
  std::vector<Site> sites_;
  std::map<const std::byte*, size_t> by_data_;
  std::map<std::string, size_t, std::less<>> by_name_;
  std::vector<float> turned_, products_;
};

// One pass over the windows; what the sites collect is added up.
void observe(const Model& model, std::span<const std::vector<int32_t>> windows, InputSites& sites,
    const CpuContext& context);

}  // namespace cheetah
