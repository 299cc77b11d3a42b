// SPDX-License-Identifier: MIT
#pragma once
#include "model/weight_loader.h"
#include "model/weight_names.h"

namespace cheetah {

// Fills every slot the traits ask for. What is missing or misshapen is noted in the loader.
ModelWeights bind_weights(const ModelTraits& traits, const WeightNames& names, const WeightSource& source,
    const LoadOptions& options, ThreadPool& pool);

// Parts of bind_weights, one file each. `root` is the layer's prefix.
void bind_attention(WeightLoader& loader, const ModelTraits& traits, const WeightNames& names,
    const std::string& root, AttentionWeights& into);
void bind_mla(WeightLoader& loader, const ModelTraits& traits, const WeightNames& names,
    const std::string& root, AttentionWeights& into);
void bind_moe(WeightLoader& loader, const ModelTraits& traits, const WeightNames& names,
    const std::string& root, MoeWeights& into);
void bind_gpt_oss_experts(
    WeightLoader& loader, const ModelTraits& traits, const std::string& root, MoeWeights& into);

// A [rows, cols] layer called `name`, transposed where the checkpoint stores it so.
Linear bind_linear(WeightLoader& loader, const WeightNames& names, const std::string& name, int64_t rows,
    int64_t cols, Presence bias);
// Rows [first, first + rows) of a layer.
Linear rows_of(const Linear& whole, int64_t first, int64_t rows);
Norm bind_norm(WeightLoader& loader, const std::string& name, int64_t size, bool with_bias);

}  // namespace cheetah
