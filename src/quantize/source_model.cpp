// SPDX-License-Identifier: MIT
#include "quantize/source_model.h"

#include <algorithm>
#include <atomic>
#include <cmath>

#include "base/error.h"
#include "base/format.h"
#include "kernels/quant/quant.h"

namespace cheetah {
namespace {

std::string indexed(const std::string& pattern, int64_t index) {
  const size_t at = pattern.find("{}");
  if (at == std::string::npos) return pattern;
  return pattern.substr(0, at) + std::to_string(index) + pattern.substr(at + 2);
}

std::string root_of(const TensorMap& tensors, const WeightNames& names) {
  for (const std::string& root : names.roots)
    if (tensors.contains(root + names.embedding + ".weight")) return root;
  return names.roots.front();
}

// Names of one layer's linear weights, without ".weight"; not all are there.
std::vector<std::string> candidates(const FamilyModel& family, const std::string& root) {
  const WeightNames& names = family.names;
  std::vector<std::string> found;
  for (const std::string* name : {&names.qkv, &names.q, &names.k, &names.v, &names.o, &names.q_a, &names.q_b,
           &names.kv_a, &names.kv_b, &names.gate_up, &names.gate, &names.up, &names.down})
    if (!name->empty()) found.push_back(root + *name);
  for (const std::string& part : names.moe_roots) {
    for (int64_t e = 0; e < family.traits.moe.experts; ++e)
      for (const std::string* role : {&names.expert_gate, &names.expert_up, &names.expert_down})
        found.push_back(root + part + indexed(names.expert + *role, e));
    for (const std::string* role : {&names.shared_gate, &names.shared_up, &names.shared_down})
      found.push_back(root + part + *role);
  }
  return found;
}

const Json* fp8_block(const Json& config) {
  const auto at = config.find("quantization_config");
  if (at == config.end() || !at->is_object()) return nullptr;
  const auto block = at->find("weight_block_size");
  const bool valid = block != at->end() && block->is_array() && block->size() == 2 &&
                     (*block)[0].is_number_integer() && (*block)[1].is_number_integer() && (*block)[0] >= 1 &&
                     (*block)[1] >= 1;
  return valid ? &*block : nullptr;
}

std::string scale_name(const TensorMap& tensors, const std::string& name) {
  for (const char* end : {"_scale_inv", "_scale"})
    if (tensors.contains(name + end)) return name + end;
  return "";
}

}  // namespace

SourceModel::SourceModel(const std::string& path, ThreadPool& pool)
    : checkpoint_(Checkpoint::open(path)),
      family_(describe_model(checkpoint_)),
      pool_(pool),
      unpacked_(unpack_tensors(checkpoint_, pool)),
      root_(root_of(unpacked_.tensors, family_.names)) {
  if (const Json* block = fp8_block(checkpoint_.config())) {
    fp8_rows_ = (*block)[0].get<int64_t>();
    fp8_cols_ = (*block)[1].get<int64_t>();
  }
  for (const auto& [name, view] : tensors()) {
    const std::string scale = view.dtype == DType::kF8E4M3 ? scale_name(tensors(), name) : "";
    if (!scale.empty()) fp8_scales_[name] = read(scale);
  }
  list_linears();
}

void SourceModel::list_linears() {
  const auto layers = static_cast<int64_t>(family_.traits.layers.size());
  for (int64_t layer = 0; layer < layers; ++layer)
    for (const std::string& name : candidates(family_, layer_root(layer))) {
      const auto at = tensors().find(name + ".weight");
      if (at == tensors().end() || at->second.shape.rank() != 2) continue;
      linears_.push_back(
          {.name = at->first, .layer = layer, .rows = at->second.rows(), .cols = at->second.cols()});
    }
}

std::string SourceModel::layer_root(int64_t layer) const {
  return root_ + indexed(family_.names.layer, layer);
}

const TensorView& SourceModel::tensor(const std::string& name) const {
  const auto at = tensors().find(name);
  if (at == tensors().end()) throw Error(format("{}: \"{}\" is missing", path(), printable(name, 200)));
  return at->second;
}

bool SourceModel::is_companion(const std::string& name) const {
  for (const char* end : {"_scale_inv", "_scale"}) {
    if (!name.ends_with(std::string("weight") + end)) continue;
    const auto at = tensors().find(name.substr(0, name.size() - std::string_view(end).size()));
    if (at != tensors().end() && at->second.dtype == DType::kF8E4M3) return true;
  }
  return name.ends_with(".input_scale");
}

const LinearTensor* SourceModel::linear(const std::string& name) const {
  const auto at = std::ranges::find(linears_, name, &LinearTensor::name);
  return at == linears_.end() ? nullptr : &*at;
}

int64_t SourceModel::layer_of(const std::string& name) const {
  const std::string pattern = root_ + family_.names.layer;
  const size_t at = pattern.find("{}");
  if (at == std::string::npos || name.compare(0, at, pattern, 0, at) != 0) return -1;
  int64_t layer = 0;
  size_t i = at;
  for (; i < name.size() && name[i] >= '0' && name[i] <= '9' && layer < 1'000'000; ++i)
    layer = layer * 10 + (name[i] - '0');
  return i > at && layer < std::ssize(family_.traits.layers) ? layer : -1;
}

WeightMatrix SourceModel::matrix(const std::string& name) const {
  const TensorView& view = tensor(name);
  WeightMatrix matrix{.dtype = view.dtype, .rows = view.rows(), .cols = view.cols(), .data = view.data};
  const auto at = fp8_scales_.find(name);
  if (at == fp8_scales_.end()) return matrix;
  const auto count = std::ssize(at->second);
  const auto across = [](int64_t size, int64_t block) { return (size + block - 1) / block; };
  if (count == 1)
    matrix.scales = {.data = at->second.data(), .rows = matrix.rows, .cols = matrix.cols};
  else if (count == matrix.rows)
    matrix.scales = {.data = at->second.data(), .rows = 1, .cols = matrix.cols};
  else if (count == across(matrix.rows, fp8_rows_) * across(matrix.cols, fp8_cols_))
    matrix.scales = {.data = at->second.data(), .rows = fp8_rows_, .cols = fp8_cols_};
  else
    throw Error(format("{}: \"{}\" {} has {} scales, which fit no block", path(), printable(name, 200),
        view.shape.text(), count));
  return matrix;
}

void SourceModel::read_row(const std::string& name, int64_t row, float* to) const {
  widen_weights(matrix(name), row, to);
}

std::vector<float> SourceModel::read(const std::string& name) const {
  const TensorView& view = tensor(name);
  switch (view.dtype) {
    case DType::kBool:
    case DType::kU8:
    case DType::kI8:
    case DType::kI16:
    case DType::kU16:
    case DType::kI32:
    case DType::kU32:
    case DType::kI64:
    case DType::kU64:
      throw Error(
          format("{}: \"{}\" is {}, expected weights", path(), printable(name, 200), name_of(view.dtype)));
    default:
      break;
  }
  const WeightMatrix from = matrix(name);
  std::vector<float> numbers(static_cast<size_t>(view.shape.elements()));
  std::atomic<bool> finite{true};
  pool_.parallel_for(from.rows, 16, [&](int64_t begin, int64_t end, int) {
    for (int64_t r = begin; r < end; ++r) {
      float* row = numbers.data() + r * from.cols;
      widen_weights(from, r, row);
      if (!std::all_of(row, row + from.cols, [](float x) { return std::isfinite(x); })) finite = false;
    }
  });
  if (!finite)
    throw Error(format(
        "{}: \"{}\" holds numbers that are not finite: the file is damaged", path(), printable(name, 200)));
  return numbers;
}

}  // namespace cheetah
