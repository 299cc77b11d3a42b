// SPDX-License-Identifier: MIT
#include "quantize/awq.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "kernels/gemm/gemm.h"
#include "kernels/quant/quant.h"

namespace cheetah {
namespace {

std::string indexed(const std::string& pattern, int64_t index) {
  const size_t at = pattern.find("{}");
  return at == std::string::npos ? pattern
                                 : pattern.substr(0, at) + std::to_string(index) + pattern.substr(at + 2);
}

// Layers that read what a producer makes.
struct Group {
  std::vector<std::string> norms;  // producers: a norm's weight and bias, or
  std::vector<std::string> rows;  // … a linear layer's weight and bias, whose outputs `first_row` on are read
  int64_t first_row = 0;
  std::vector<std::string> consumers;  // linear layers, rounded
  std::vector<std::string> followers;  // matrices that read the same and are not rounded
};

class LayerScaler {
 public:
  LayerScaler(
      const SourceModel& source, int64_t layer, const GridRules& rules, InputSites& sites, TensorEdits& edits)
      : source_(source),
        traits_(source.family().traits),
        names_(source.family().names),
        root_(source.layer_root(layer)),
        is_moe_(traits_.layers[static_cast<size_t>(layer)].moe),
        rules_(rules),
        sites_(sites),
        edits_(edits) {
    rules_.search = false;  // ranges are searched when the scales are known
  }

  void run() {
    if (traits_.pre_norm && !traits_.shared_norm) {
      scale(attention_group());
      scale(is_moe_ ? expert_group() : mlp_group());
    }
    if (!traits_.gated_mlp) return;
    if (!is_moe_) scale(inner_group(root_ + names_.up, root_ + names_.down, root_ + names_.gate_up));
    for (const std::string& part : names_.moe_roots)
      for (int64_t e = 0; is_moe_ && e < traits_.moe.experts; ++e)
        scale(inner_group(root_ + part + indexed(names_.expert + names_.expert_up, e),
            root_ + part + indexed(names_.expert + names_.expert_down, e), ""));
  }

 private:
  void keep_present(std::vector<std::string>& names) const {
    std::erase_if(names, [&](const std::string& name) { return !source_.has(name); });
  }

  Group with_norm(const std::string& norm) const {
    Group group;
    group.norms = {root_ + norm + ".weight", root_ + norm + ".bias"};
    keep_present(group.norms);
    return group;
  }

  Group attention_group() const {
    Group group = with_norm(names_.attention_in);
    for (const std::string* role : {&names_.qkv, &names_.q, &names_.k, &names_.v, &names_.q_a, &names_.kv_a})
      if (!role->empty()) group.consumers.push_back(root_ + *role + ".weight");
    keep_present(group.consumers);
    return group;
  }

  Group mlp_group() const {
    Group group = with_norm(names_.mlp_in);
    for (const std::string* role : {&names_.gate_up, &names_.gate, &names_.up})
      if (!role->empty()) group.consumers.push_back(root_ + *role + ".weight");
    keep_present(group.consumers);
    return group;
  }

  // Routers and shared experts read what the experts do.
  Group expert_group() const {
    Group group = with_norm(names_.mlp_in);
    for (const std::string& part : names_.moe_roots) {
      group.followers.push_back(root_ + part + names_.router + ".weight");
      for (const std::string* role : {&names_.shared_gate, &names_.shared_up})
        group.consumers.push_back(root_ + part + *role + ".weight");
      for (int64_t e = 0; e < traits_.moe.experts; ++e)
        for (const std::string* role : {&names_.expert_gate, &names_.expert_up})
          group.consumers.push_back(root_ + part + indexed(names_.expert + *role, e) + ".weight");
    }
    keep_present(group.consumers);
    keep_present(group.followers);
    return group;
  }

  // What is gated is a product with `up`, so scales pass through it.
  Group inner_group(const std::string& up, const std::string& down, const std::string& joined) const {
    Group group;
    const bool is_joined = !joined.empty() && joined != root_ && source_.has(joined + ".weight");
    const std::string producer = is_joined ? joined : up;
    group.rows = {producer + ".weight", producer + ".bias"};
    keep_present(group.rows);
    group.consumers = {down + ".weight"};
    keep_present(group.consumers);
    if (is_joined && !group.consumers.empty())
      group.first_row = source_.tensor(group.consumers.front()).cols();
    return group;
  }

  std::vector<float> numbers_of(const std::string& name) const {
    std::vector<float> numbers = source_.read(name);
    if (const auto at = edits_.find(name); at != edits_.end())
      at->second.apply(numbers, source_.tensor(name).cols());
    return numbers;
  }

  struct Consumer {
    int64_t rows = 0;
    std::vector<float> w;
    const Moments* moments = nullptr;
  };

  void scale(const Group& group) {
    if (group.consumers.empty() || (group.norms.empty() && group.rows.empty())) return;
    std::vector<Consumer> consumers;
    for (const std::string& name : group.consumers) {
      const Moments* moments = sites_.find(name);
      if (!source_.linear(name)) return;  // a matrix of another kind reads it too
      if (!moments || !moments->seen()) continue;
      consumers.push_back({source_.tensor(name).rows(), numbers_of(name), moments});
    }
    if (consumers.empty()) return;
    const std::vector<float> magnitudes = mean_magnitudes(consumers);
    std::vector<float> best;
    double least = total_loss(consumers, {});
    constexpr int kSteps = 20;
    for (int step = 1; step <= kSteps; ++step) {
      const std::vector<float> scales = scales_at(magnitudes, static_cast<double>(step) / kSteps);
      const double loss = total_loss(consumers, scales);
      if (loss >= least) continue;
      least = loss;
      best = scales;
    }
    if (!best.empty()) apply(group, best);
  }

  static std::vector<float> mean_magnitudes(const std::vector<Consumer>& consumers) {
    std::vector<float> mean(consumers.front().moments->magnitudes.size());
    std::set<const Moments*> counted;
    double tokens = 0;
    for (const Consumer& consumer : consumers) {
      if (!counted.insert(consumer.moments).second) continue;
      tokens += static_cast<double>(consumer.moments->tokens);
      for (size_t i = 0; i < mean.size(); ++i) mean[i] += consumer.moments->magnitudes[i];
    }
    for (float& value : mean) value = std::max(static_cast<float>(value / tokens), 1e-6f);
    return mean;
  }

  static std::vector<float> scales_at(const std::vector<float>& magnitudes, double power) {
    std::vector<float> scales(magnitudes.size());
    std::ranges::transform(magnitudes, scales.begin(),
        [&](float value) { return static_cast<float>(std::pow(static_cast<double>(value), power)); });
    const auto [low, high] = std::ranges::minmax_element(scales);
    const float middle = std::sqrt(*low * *high);
    for (float& scale : scales) scale = std::clamp(scale / middle, 1e-4f, 1e4f);
    return scales;
  }

  // The squared error of the layers' outputs over calibration's inputs: D H D^T summed over D's rows.
  double total_loss(const std::vector<Consumer>& consumers, const std::vector<float>& scales) const {
    double loss = 0;
    for (const Consumer& consumer : consumers) loss += loss_of(consumer, scales);
    return loss;
  }

  double loss_of(const Consumer& consumer, const std::vector<float>& scales) const {
    const int64_t rows = consumer.rows, cols = consumer.moments->width;
    std::vector<float> scaled = consumer.w;
    std::vector<float> importance = consumer.moments->importance();
    for (size_t i = 0; i < scaled.size() && !scales.empty(); ++i) scaled[i] *= scales[i % scales.size()];
    for (size_t i = 0; i < scales.size(); ++i) importance[i] /= scales[i] * scales[i];
    const IntMatrix rounded =
        round_to_nearest({scaled.data(), rows, cols}, rules_, importance, source_.pool());
    std::vector<float> misses(consumer.w.size()), products(consumer.w.size());
    source_.pool().parallel_for(rows, 8, [&](int64_t begin, int64_t end, int) {
      for (int64_t r = begin; r < end; ++r) {
        float* row = misses.data() + r * cols;
        dequantize_row(rounded, r, row);
        for (int64_t c = 0; c < cols; ++c) {
          const auto at = static_cast<size_t>(c);
          row[c] =
              row[c] / (scales.empty() ? 1.f : scales[at]) - consumer.w[static_cast<size_t>(r * cols) + at];
        }
      }
    });
    gemm({.x = misses.data(),
             .x_stride = cols,
             .m = rows,
             .w = {.dtype = DType::kF32,
                 .rows = cols,
                 .cols = cols,
                 .data = reinterpret_cast<const std::byte*>(consumer.moments->products.data())},
             .bias = nullptr,
             .y = products.data(),
             .y_stride = cols},
        {source_.pool(), Precision::kExact});
    double loss = 0;
    for (size_t i = 0; i < misses.size(); ++i) loss += static_cast<double>(misses[i]) * products[i];
    return loss;
  }

  // What a norm's weight loses when it is stored rounded, the layers behind it make up for.
  void follow_rounding(const std::string& norm, std::vector<float>& scales) const {
    const TensorView& view = source_.tensor(norm);
    const DType stored = view.dtype == DType::kF16 || view.dtype == DType::kBF16 ? view.dtype : DType::kF32;
    const float offset = traits_.norm_weight_offset;
    const std::vector<float> weight = source_.read(norm);
    std::byte bytes[4];
    for (size_t i = 0; i < scales.size(); ++i) {
      const float wanted = (weight[i] + offset) / scales[i] - offset;
      float rounded = 0;
      quantize_row(stored, &wanted, bytes, 1);
      dequantize_row(stored, bytes, &rounded, 1);
      if (rounded + offset != 0 && weight[i] + offset != 0)
        scales[i] = (weight[i] + offset) / (rounded + offset);
    }
  }

  void apply(const Group& group, std::vector<float> scales) {
    if (!group.norms.empty()) follow_rounding(group.norms.front(), scales);
    std::vector<float> inverse(scales.size());
    std::ranges::transform(scales, inverse.begin(), [](float scale) { return 1 / scale; });
    for (const std::string& name : group.norms) {
      TensorEdit& edit = edits_[name];
      edit.cols = inverse;
      edit.offset = name.ends_with(".weight") ? traits_.norm_weight_offset : 0.f;
    }
    for (const std::string& name : group.rows) {
      const bool is_weight = name.ends_with(".weight");
      const TensorView& view = source_.tensor(name);
      std::vector<float> factors(static_cast<size_t>(is_weight ? view.rows() : view.cols()), 1.f);
      std::ranges::copy(inverse, factors.begin() + group.first_row);
      (is_weight ? edits_[name].rows : edits_[name].cols) = std::move(factors);
    }
    for (const std::string& name : group.followers) edits_[name].cols = scales;
    std::set<Moments*> turned;
    for (const std::string& name : group.consumers) {
      edits_[name].cols = scales;
      Moments* moments = sites_.find(name);
      if (moments && turned.insert(moments).second) divide(*moments, inverse);
    }
  }

  static void divide(Moments& moments, const std::vector<float>& inverse) {
    const auto width = static_cast<size_t>(moments.width);
    for (size_t i = 0; i < width; ++i) {
      moments.magnitudes[i] *= inverse[i];
      for (size_t j = 0; j < width; ++j) moments.products[i * width + j] *= inverse[i] * inverse[j];
    }
  }

  const SourceModel& source_;
  const ModelTraits& traits_;
  const WeightNames& names_;
  std::string root_;
  bool is_moe_;
  GridRules rules_;
  InputSites& sites_;
  TensorEdits& edits_;
};

}  // namespace

void scale_layer(
    const SourceModel& source, int64_t layer, const GridRules& rules, InputSites& sites, TensorEdits& edits) {
  LayerScaler(source, layer, rules, sites, edits).run();
}

}  // namespace cheetah
