// SPDX-License-Identifier: MIT
#pragma once
// AWQ: inputs that are large on average are made smaller before rounding and their weights larger, where a
// norm or the layer before can take the difference.
#include <map>
#include <string>
#include <vector>

#include "quantize/integer_grid.h"
#include "quantize/observe.h"
#include "quantize/preparation.h"

namespace cheetah {

using TensorEdits = std::map<std::string, TensorEdit, std::less<>>;

// Finds the scales of one layer, notes the edits, and puts its sites' moments into the scaled inputs' terms.
void scale_layer(
    const SourceModel& source, int64_t layer, const GridRules& rules, InputSites& sites, TensorEdits& edits);

}  // namespace cheetah
