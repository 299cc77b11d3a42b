// SPDX-License-Identifier: MIT
#include <cmath>

#include "kernels/gemm/gemm.h"
#include "quantize/observe.h"

namespace cheetah {
namespace {

std::string indexed(const std::string& pattern, int64_t index) {
  const size_t at = pattern.find("{}");
  return at == std::string::npos ? pattern
                                 : pattern.substr(0, at) + std::to_string(index) + pattern.substr(at + 2);
}

const WeightMatrix& first_of(std::initializer_list<const Linear*> linears) {
  for (const Linear* linear : linears)
    if (linear->present()) return linear->w;
  return (*linears.begin())->w;
}

}  // namespace

InputSites::InputSites(const SourceModel& source, const Model& model) : source_(source) {
  const WeightNames& names = source.family().names;
  const ModelTraits& traits = source.family().traits;
  for (int64_t layer = 0; layer < std::ssize(traits.layers); ++layer) {
    const LayerWeights& w = model.weights().layers[static_cast<size_t>(layer)];
    const std::string root = source.layer_root(layer);
    const auto name = [&](const std::string& role) { return root + role + ".weight"; };
    add(layer, first_of({&w.attention.qkv, &w.attention.q_a, &w.attention.q}),
        {name(names.qkv), name(names.q), name(names.k), name(names.v), name(names.q_a), name(names.kv_a)});
    add(layer, w.attention.o.w, {name(names.o)});
    add(layer, first_of({&w.mlp.gate_up, &w.mlp.gate, &w.mlp.up}),
        {name(names.gate_up), name(names.gate), name(names.up)});
    add(layer, w.mlp.down.w, {name(names.down)});
    if (!traits.layers[static_cast<size_t>(layer)].moe) continue;
    for (const std::string& part : names.moe_roots)
      for (int64_t e = 0; e < traits.moe.experts; ++e) {
        const auto expert = [&](const std::string& role) {
          return name(part + indexed(names.expert + role, e));
        };
        const auto at = static_cast<size_t>(e);
        if (at < w.moe.gate.size())
          add(layer, w.moe.gate[at], {expert(names.expert_gate), expert(names.expert_up)});
        if (at < w.moe.down.size()) add(layer, w.moe.down[at], {expert(names.expert_down)});
      }
    for (const std::string& part : names.moe_roots) {
      add(layer, first_of({&w.moe.shared.gate_up, &w.moe.shared.gate}),
          {name(part + names.shared_gate), name(part + names.shared_up)});
      add(layer, w.moe.shared.down.w, {name(part + names.shared_down)});
    }
  }
}

void InputSites::add(int64_t layer, const WeightMatrix& leader, const std::vector<std::string>& names) {
  if (!leader.data) return;
  bool wanted = false;
  for (const std::string& name : names)
    if (source_.linear(name)) {
      by_name_[name] = sites_.size();
      wanted = true;
    }
  if (!wanted) return;
  by_data_[leader.data] = sites_.size();
  sites_.push_back({.layer = layer, .moments = {.width = leader.cols}});
}

void InputSites::collect(int64_t first, int64_t count) {
  for (Site& site : sites_) {
    const int64_t width = site.moments.width;
    const bool wanted = site.layer >= first && site.layer < first + count;
    site.moments = {.width = width};
    if (!wanted) continue;
    site.moments.products.resize(static_cast<size_t>(width * width));
    site.moments.magnitudes.resize(static_cast<size_t>(width));
  }
}

int64_t InputSites::bytes_of(int64_t layer) const {
  int64_t total = 0;
  for (const Site& site : sites_)
    if (site.layer == layer) total += (site.moments.width + 1) * site.moments.width * int64_t{sizeof(float)};
  return total;
}

Moments* InputSites::find(const std::string& linear) {
  const auto at = by_name_.find(linear);
  if (at == by_name_.end()) return nullptr;
  Moments& moments = sites_[at->second].moments;
  return moments.products.empty() ? nullptr : &moments;
}

// The products are a matrix product of the inputs, turned, with themselves.
void InputSites::see(
    const std::byte* data, const float* x, int64_t stride, int64_t rows, const CpuContext& context) {
  const auto at = by_data_.find(data);
  if (at == by_data_.end() || rows == 0) return;
  Moments& moments = sites_[at->second].moments;
  if (moments.products.empty()) return;
  const int64_t width = moments.width;
  turned_.resize(static_cast<size_t>(width * rows));
  products_.resize(static_cast<size_t>(width * width));
  context.pool.parallel_for(width, 16, [&](int64_t begin, int64_t end, int) {
    for (int64_t c = begin; c < end; ++c) {
      float sum = 0;
      for (int64_t r = 0; r < rows; ++r) {
        const float value = x[r * stride + c];
        turned_[static_cast<size_t>(c * rows + r)] = value;
        sum += std::fabs(value);
      }
      moments.magnitudes[static_cast<size_t>(c)] += sum;
    }
  });
  gemm({.x = turned_.data(),
           .x_stride = rows,
           .m = width,
           .w = {.dtype = DType::kF32,
               .rows = width,
               .cols = rows,
               .data = reinterpret_cast<const std::byte*>(turned_.data())},
           .bias = nullptr,
           .y = products_.data(),
           .y_stride = width},
      context);
  for (size_t i = 0; i < products_.size(); ++i) moments.products[i] += products_[i];
  moments.tokens += rows;
}

}  // namespace cheetah
