// SPDX-License-Identifier: MIT
#include "cli/version.h"

#include <hwy/highway.h>
#include <hwy/targets.h>

#include "base/format.h"

namespace cheetah {

BuildInfo build_info() {
  return {
    .version = CHEETAH_VERSION, .commit = CHEETAH_COMMIT,
#if defined(__clang__)
    .compiler = "clang " __clang_version__,
#else
    .compiler = "gcc " __VERSION__,
#endif
    .cuda = CHEETAH_CUDA_VERSION
  };
}

std::string version_text() {
  std::string targets;  // best first; Highway runs the first one that this processor has
  const auto supported = hwy::SupportedTargets();
  for (auto left = supported & HWY_TARGETS; left != 0; left &= left - 1) {
    const auto target = left & ~(left - 1);
    targets += targets.empty() ? format("{} (chosen)", hwy::TargetName(target))
                               : format(" {}", hwy::TargetName(target));
  }
  const BuildInfo build = build_info();
  return format("cheetah {} ({})\ncompiler  {}\nsimd      {}\ncuda      {}\n", build.version, build.commit,
      build.compiler, targets, build.cuda.empty() ? "not built in" : build.cuda);
}

}  // namespace cheetah
