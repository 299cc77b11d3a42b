// SPDX-License-Identifier: MIT
#pragma once
#include "cli/serve_options.h"

namespace cheetah {

// A server of several models, each loaded when a request names it.
int run_pool(const ServeOptions& options);

}  // namespace cheetah
