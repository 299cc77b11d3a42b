// SPDX-License-Identifier: MIT
#include "model/bind_weights.h"

namespace cheetah {
namespace {

std::string expert_name(const std::string& pattern, int64_t index) {
  const size_t at = pattern.find("{}");
  return pattern.substr(0, at) + std::to_string(index) + pattern.substr(at + 2);
}

// The part of the layer that holds the router; the first when none does, for the message.
std::string find_moe_root(const WeightLoader& loader, const WeightNames& names, const std::string& root) {
  for (const std::string& part : names.moe_roots)
    if (loader.has(root + part + names.router + ".weight")) return root + part;
  return root + names.moe_roots.front();
}

std::vector<const float*> bind_expert_bias(
    WeightLoader& loader, const std::string& name, int64_t experts, int64_t size) {
  std::vector<const float*> result;
  const float* all = loader.vector(name, {experts, size});
  if (!all) return result;
  for (int64_t e = 0; e < experts; ++e) result.push_back(all + e * size);
  return result;
}

// All experts of one role in one tensor, gate and up apart.
void bind_stacked(WeightLoader& loader, const ModelTraits& traits, const WeightNames& names,
    const std::string& root, MoeWeights& into) {
  const int64_t experts = traits.moe.experts, inner = traits.moe.expert_hidden, hidden = traits.hidden;
  into.gate = loader.matrices(root + names.experts_gate + ".weight", experts, inner, hidden);
  into.up = loader.matrices(root + names.experts_up + ".weight", experts, inner, hidden);
  into.down = loader.matrices(root + names.experts_down + ".weight", experts, hidden, inner);
  if (names.experts_bias == Presence::kNo) return;
  into.gate_bias = bind_expert_bias(loader, root + names.experts_gate + ".bias", experts, inner);
  into.up_bias = bind_expert_bias(loader, root + names.experts_up + ".bias", experts, inner);
  into.down_bias = bind_expert_bias(loader, root + names.experts_down + ".bias", experts, hidden);
}

// All experts in one tensor, gate above up.
void bind_fused(WeightLoader& loader, const ModelTraits& traits, const WeightNames& names,
    const std::string& root, MoeWeights& into) {
  const int64_t experts = traits.moe.experts, inner = traits.moe.expert_hidden, hidden = traits.hidden;
  into.gate_up = loader.matrices(root + names.experts_gate_up, experts, 2 * inner, hidden);
  for (const WeightMatrix& both : into.gate_up) {
    into.gate.push_back(rows_of(both, 0, inner));
    into.up.push_back(rows_of(both, inner, inner));
  }
  into.down = loader.matrices(root + names.experts_down, experts, hidden, inner);
}

void bind_each(WeightLoader& loader, const ModelTraits& traits, const WeightNames& names,
    const std::string& root, MoeWeights& into) {
  const int64_t inner = traits.moe.expert_hidden, hidden = traits.hidden;
  for (int64_t e = 0; e < traits.moe.experts; ++e) {
    const auto name = [&](const std::string& role) {
      return root + expert_name(names.expert + role, e) + ".weight";
    };
    into.gate.push_back(loader.matrix(name(names.expert_gate), inner, hidden));
    into.up.push_back(loader.matrix(name(names.expert_up), inner, hidden));
    into.down.push_back(loader.matrix(name(names.expert_down), hidden, inner));
  }
}

}  // namespace

void bind_moe(WeightLoader& loader, const ModelTraits& traits, const WeightNames& names,
    const std::string& root, MoeWeights& into) {
  const MoeTraits& moe = traits.moe;
  const std::string at = find_moe_root(loader, names, root);
  const std::string router = at + names.router;
  into.router.w = loader.table(router + ".weight", moe.experts, traits.hidden);
  if (names.router_bias == Presence::kYes) into.router.bias = loader.vector(router + ".bias", {moe.experts});
  if (!names.selection_bias.empty() && moe.score == RouterScore::kSigmoid)
    into.selection_bias = loader.vector(at + names.selection_bias, {moe.experts});
  if (names.gpt_oss_experts)
    bind_gpt_oss_experts(loader, traits, at, into);
  else if (!names.experts_gate.empty() && loader.has(at + names.experts_gate + ".weight"))
    bind_stacked(loader, traits, names, at, into);
  else if (!names.experts_gate_up.empty() && loader.has(at + names.experts_gate_up))
    bind_fused(loader, traits, names, at, into);
  else
    bind_each(loader, traits, names, at, into);
  if (moe.shared_hidden == 0) return;
  into.shared.gate =
      bind_linear(loader, names, at + names.shared_gate, moe.shared_hidden, traits.hidden, names.mlp_bias);
  into.shared.up =
      bind_linear(loader, names, at + names.shared_up, moe.shared_hidden, traits.hidden, names.mlp_bias);
  into.shared.down =
      bind_linear(loader, names, at + names.shared_down, traits.hidden, moe.shared_hidden, names.mlp_bias);
}

}  // namespace cheetah
