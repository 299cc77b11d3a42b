// SPDX-License-Identifier: MIT
// GPU: states in which a GPU looks free or at work and is neither.
#include <algorithm>

#include "base/format.h"
#include "base/table.h"
#include "doctor/check.h"
#include "doctor/checks/every_gpu.h"

namespace cheetah::doctor {
namespace {

constexpr double kReservedBytes = 4.0 * 1073741824;  // what driver and firmware keep, with room
constexpr double kProhibited = 2;                    // of nvmlComputeMode_t
constexpr uint64_t kIdle = 0x1;

Outcome memory_has_an_owner(const Facts& facts) {
  if (facts.machine.is_container) return not_applicable("a container does not see the processes of others");
  if (facts.machine.is_grace) return not_applicable("the kernel itself keeps pages in this GPU's memory");
  return every_gpu(facts, "GPU memory is held, and no process holds it", "GPU memory has owners",
      [](const Gpu& gpu) -> Wrong {
        const auto used = gpu.number("memory.used"), total = gpu.number("memory.total");
        if (!used || !total || !gpu.text("processes") || gpu.flag("mig.current")) return std::nullopt;
        if (!gpu.processes().empty() || gpu.number("utilization").value_or(0) > 0) return "";
        return *used > std::max(kReservedBytes, 0.05 * *total) ? human_bytes(*used) + " held" : "";
      });
}

Outcome compute_is_allowed(const Facts& facts) {
  return every_gpu(
      facts, "these GPUs refuse all programs", "GPUs take programs", [](const Gpu& gpu) -> Wrong {
        const auto mode = gpu.number("compute_mode");
        if (gpu.text("compute_mode").value_or("") == "Prohibited") return "compute mode is prohibited";
        if (!mode) return std::nullopt;
        return *mode == kProhibited ? "compute mode is prohibited" : "";
      });
}

// At full use a GPU runs near its top clock, or names what holds it down.
Outcome clocks_follow_the_load(const Facts& facts) {
  return every_gpu(facts, "GPUs at work are stuck at a low clock, for no reason they give",
      "the clocks follow the load", [](const Gpu& gpu) -> Wrong {
        const auto now = gpu.number("clock.sm"), most = gpu.number("clock.sm.max");
        const auto use = gpu.number("utilization"), reasons = gpu.number("throttle");
        if (!now || !most || !use || !reasons || *reasons < 0 || *reasons > 1e15) return std::nullopt;
        const bool is_told = (static_cast<uint64_t>(*reasons) & ~kIdle) != 0;
        if (*use < 90 || is_told || *now >= 0.4 * *most) return "";
        return format("{:.0f} of {:.0f} MHz at {:.0f} % use", *now, *most, *use);
      });
}

constexpr Check kChecks[] = {
    {"GPU-41", Layer::kGpu, Level::kWarn, 0.20, "GPU memory has owners",
        "Memory that a dead process left behind, or that a hidden one holds, is missing to the next job.",
        "out-of-memory errors on a GPU that looks free", FixKind::kAdvice,
        "look for it with fuser -v /dev/nvidia*; when nothing is left, reset GPU {it} (nvidia-smi -i {it} -r)",
        "", "A09,M02", memory_has_an_owner},
    {"GPU-42", Layer::kGpu, Level::kFail, 0.90, "GPUs take programs",
        "In compute mode 'prohibited' every CUDA program fails to start.", "no GPU", FixKind::kCommand,
        "set the compute mode to DEFAULT", "", "F10", compute_is_allowed},
    {"GPU-43", Layer::kGpu, Level::kFail, 0.40, "Clocks follow the load",
        "A GPU that stays at its idle clock under load has a stuck power manager.",
        "the whole job at a fraction of its speed", FixKind::kAdvice,
        "reset GPU {it} (nvidia-smi -i {it} -r); power-cycle the node if it returns", "", "C08",
        clocks_follow_the_load},
};

}  // namespace

std::span<const Check> gpu_state_checks() { return kChecks; }

}  // namespace cheetah::doctor
