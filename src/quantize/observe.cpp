// SPDX-License-Identifier: MIT
#include "quantize/observe.h"

#include <algorithm>
#include <numeric>

#include "model/cpu_ops.h"
#include "model/transformer.h"

namespace cheetah {
namespace {

// The CPU's operations, with an eye on the inputs of products.
class ObservingOps : public CpuOps {
 public:
  ObservingOps(const Model& model, const CpuContext& context, InputSites& sites)
      : CpuOps(model.traits(), model.weights(), context), observed_(context), sites_(sites) {}

  void gemm(const GemmArgs<float>& args, Finish finish) {
    sites_.see(args.w.data, args.x, args.x_stride, args.m, observed_);
    CpuOps::gemm(args, finish);
  }

  void multiply_experts(
      const CpuMatrices& w, const CpuRoutes& routes, Rows<const float> x, Rows<float> y, Finish finish) {
    for (size_t e = 0; e < w.matrices.size(); ++e) {
      const int64_t first = routes.order->offsets[e], rows = routes.order->offsets[e + 1] - first;
      sites_.see(w.matrices[e].data, x.data + first * x.stride, x.stride, rows, observed_);
    }
    CpuOps::multiply_experts(w, routes, x, y, finish);
  }

 private:
  CpuContext observed_;
  InputSites& sites_;
};

}  // namespace

void observe(const Model& model, std::span<const std::vector<int32_t>> windows, InputSites& sites,
    const CpuContext& context) {
  constexpr int64_t kPageTokens = 16;
  const ModelTraits& traits = model.traits();
  size_t longest = 1;
  for (const auto& window : windows) longest = std::max(longest, window.size());
  KvPool pool(traits, DType::kF32, (static_cast<int64_t>(longest) + kPageTokens - 1) / kPageTokens);
  std::vector<int32_t> pages(static_cast<size_t>(pool.num_pages()));
  std::iota(pages.begin(), pages.end(), 0);
  std::vector<float> hidden(longest * static_cast<size_t>(traits.hidden));
  ObservingOps ops(model, context, sites);
  Transformer<ObservingOps> transformer(traits, model.weights(), ops);
  BatchRows rows;
  for (const std::vector<int32_t>& window : windows) {
    // Every row's final state is wanted, so that the last layer's later parts see all of them too.
    std::vector<int64_t> wanted(window.size());
    std::iota(wanted.begin(), wanted.end(), 0);
    const auto count = std::ssize(window);
    const AttentionSequence sequence{
        .pages = std::span(pages).first(static_cast<size_t>(pool.pages_for(count))),
        .context_tokens = count,
        .query_begin = 0,
        .query_count = count};
    const ForwardBatch batch{.tokens = window,
        .sequences = {&sequence, 1},
        .logit_rows = {},
        .hidden_rows = wanted,
        .hidden = hidden};
    rows.place(batch, traits);
    transformer.run({.batch = batch, .pool = pool, .to_logits = {}, .rows = rows});
  }
}

}  // namespace cheetah
