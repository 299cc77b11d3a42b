#include "cli/version.h"

#include <hwy/highway.h>
#include <hwy/targets.h>

#include "base/format.h"

namespace cheetah {

std::string version_text() {
  std::string targets;  // best first; Highway runs the first one that this processor has
  const auto supported = hwy::SupportedTargets();
  for (auto left = supported & HWY_TARGETS; left != 0; left &= left - 1) {
    const auto target = left & ~(left - 1);
    targets += targets.empty() ? format("{} (chosen)", hwy::TargetName(target))
                               : format(" {}", hwy::TargetName(target));
  }
  const std::string cuda = CHEETAH_CUDA_VERSION;
  return format("cheetah {} ({})\ncompiler  {}\nsimd      {}\ncuda      {}\n", CHEETAH_VERSION,
                CHEETAH_COMMIT,
#if defined(__clang__)
                "clang " __clang_version__,
#else
                "gcc " __VERSION__,
#endif
                targets, cuda.empty() ? "not built in" : cuda);
}

}  // namespace cheetah
