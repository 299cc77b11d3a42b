// SPDX-License-Identifier: MIT
// GPU: the driver and each device.
#include <algorithm>
#include <cctype>
#include <cmath>
#include <set>

#include "base/format.h"
#include "base/table.h"
#include "doctor/check.h"
#include "doctor/checks/every_gpu.h"

namespace cheetah::doctor {
namespace {

constexpr double kLeastMargin = 5;  // degrees to the slow-down temperature

Outcome persistence_is_on(const Facts& facts) {
  return every_gpu(
      facts, "the driver unloads these idle GPUs", "persistence is on", [](const Gpu& gpu) -> Wrong {
        const auto mode = gpu.number("persistence");
        if (!mode) return std::nullopt;
        return *mode != 0 ? "" : gpu.flag("mig.current") ? "off, with MIG on" : "off";
      });
}

Outcome ecc_is_on(const Facts& facts) {
  return every_gpu(facts, "memory errors go unnoticed", "ECC is on", [](const Gpu& gpu) -> Wrong {
    const auto current = gpu.number("ecc.current");
    if (!current || is_for_the_desk(gpu)) return std::nullopt;
    const double pending = gpu.number("ecc.pending").value_or(*current);
    if (*current == 0) return pending != 0 ? "off until the next reset" : "off";
    return pending == 0 ? "on, off after the next reset" : "";
  });
}

Outcome ecc_counts_nothing(const Facts& facts) {
  return every_gpu(
      facts, "GPU memory has errors", "no uncorrected memory error", [](const Gpu& gpu) -> Wrong {
        const auto errors = gpu.number("ecc.uncorrected.volatile");
        if (!errors && !gpu.number("rows.pending")) return std::nullopt;
        if (gpu.flag("rows.failed")) return "a bad row could not be replaced";
        if (gpu.flag("rows.pending")) return "a bad row waits for a reset to be replaced";
        return errors.value_or(0) > 0 ? format("{} uncorrected since the driver loaded", *errors) : "";
      });
}

Outcome mig_fits_the_job(const Facts& facts) {
  return every_gpu(
      facts, "MIG does not fit this use", "MIG is as it should be", [&](const Gpu& gpu) -> Wrong {
        const auto current = gpu.number("mig.current");
        if (!current) return std::nullopt;
        if (gpu.number("mig.pending").value_or(*current) != *current) return "a change waits for a reset";
        const bool needs_whole = facts.gpu.count() > 1 && (facts.trains() || facts.intent.multi_node);
        return *current != 0 && needs_whole ? "on: slices cannot use NVLink with each other" : "";
      });
}

Outcome driver_serves_cuda(const Facts& facts) {
  if (facts.gpu.count() == 0)
    return facts.gpu.gpus ? not_applicable("the driver lists no GPU") : without(facts.gpu.gpus);
  if (facts.gpu.libraries)
    for (const std::string& path : *facts.gpu.libraries)
      if (contains(path, "cuda/compat/libcuda.so.")) return good("a compatibility library serves this CUDA");
  const auto runtime =
      facts.software.cuda_version ? facts.software.cuda_version : facts.gpu.library_version("libcudart.so.");
  return when_known(
      [](const std::string& driver, const std::string& cuda) {
        const char* least = compare_versions(cuda, "13") >= 0   ? "580"
                            : compare_versions(cuda, "12") >= 0 ? "525"
                                                                : "450";
        return judge(compare_versions(driver, least) >= 0,
            format("driver {} with CUDA {}, which needs {} or newer", driver, cuda, least));
      },
      facts.gpu.driver, runtime);
}

Outcome module_matches_library(const Facts& facts) {
  if (facts.gpu.gpus.is_unreadable() && contains(facts.gpu.gpus.reason(), "versions differ"))
    return bad("the kernel module and the driver's libraries are of different versions");
  return when_known(
      [&](const std::string& module, const std::string& library) {
        const std::string found = format(
            "kernel module {} ({}), library {}", module, facts.gpu.module_license.value_or("?"), library);
        return module == library ? good(found) : bad("of different versions: " + found);
      },
      facts.gpu.module_version, facts.gpu.driver);
}

bool runs_on(const DeviceCode& code, int arch) {
  if (code.is_ptx) return code.arch <= arch;
  return code.arch / 10 == arch / 10 && code.arch <= arch;
}

Outcome code_fits_the_gpu(const Facts& facts) {
  const int arch = static_cast<int>(std::lround(facts.gpu.compute_capability() * 10));
  if (arch == 0) return not_applicable("no GPU tells its compute capability");
  return when_known(
      [&](const std::vector<DeviceCode>& codes) {
        std::set<std::string> targets;
        bool native = false, any = false;
        for (const DeviceCode& code : codes) {
          targets.insert(format("{}_{}", code.is_ptx ? "compute" : "sm", code.arch));
          any = any || runs_on(code, arch);
          native = native || (!code.is_ptx && runs_on(code, arch));
        }
        std::string list;
        for (const std::string& target : targets) list += (list.empty() ? "" : " ") + target;
        if (!any) return bad(format("it holds {}, none of which runs on sm_{}", list, arch));
        if (!native)
          return bad(format("it holds {}: compiled again for sm_{} at each first start", list, arch));
        return good(format("it holds {} for sm_{}", list, arch));
      },
      facts.software.device_code);
}

constexpr uint64_t kAppClocks = 0x2, kPowerCap = 0x4, kHwSlowdown = 0x8, kSwThermal = 0x20, kHwThermal = 0x40,
                   kPowerBrake = 0x80;

std::optional<uint64_t> throttle_bits(const Gpu& gpu) {
  const auto bits = gpu.number("throttle");
  if (!bits || *bits < 0 || *bits > 1e15) return std::nullopt;
  return static_cast<uint64_t>(*bits);
}

Outcome clocks_are_free(const Facts& facts) {
  if (facts.intent.purpose == Purpose::kBench) return not_applicable("benchmarks hold the clocks on purpose");
  return every_gpu(
      facts, "clocks are held down by a setting", "clocks are free", [&](const Gpu& gpu) -> Wrong {
        const auto bits = throttle_bits(gpu);
        // Before Ampere the maker's own default is such a setting.
        if (!bits || gpu.number("cc").value_or(9) < 8) return std::nullopt;
        const bool held = (*bits & kAppClocks) != 0;
        return held ? format("held at {:.0f} of {:.0f} MHz", gpu.number("clock.sm").value_or(0),
                          gpu.number("clock.sm.max").value_or(0))
                    : "";
      });
}

Outcome gpus_are_not_throttled(const Facts& facts) {
  return every_gpu(
      facts, "GPUs run slower than they could", "no GPU is slowed down", [](const Gpu& gpu) -> Wrong {
        const auto bits = throttle_bits(gpu);
        if (!bits) return std::nullopt;
        if ((*bits & kHwThermal) != 0) return "too hot (hardware)";
        if ((*bits & kSwThermal) != 0) return "too hot";
        if ((*bits & kPowerBrake) != 0) return "power brake: the feed cannot carry the load";
        if ((*bits & kHwSlowdown) != 0) return "hardware slow-down";
        return "";
      });
}

Outcome power_limit_is_default(const Facts& facts) {
  return every_gpu(facts, "the power limit is below the card's own", "the power limit is the card's own",
      [](const Gpu& gpu) -> Wrong {
        const auto limit = gpu.number("power.limit"), own = gpu.number("power.default");
        if (!limit || !own) return std::nullopt;
        return *limit < *own * 0.98 ? format("{:.0f} of {:.0f} W", *limit, *own) : "";
      });
}

Outcome gpus_are_cool(const Facts& facts) {
  return every_gpu(facts, "GPUs are near the temperature that slows them down", "GPUs are cool enough",
      [](const Gpu& gpu) -> Wrong {
        const auto now = gpu.number("temperature");
        const auto margin = gpu.number("temperature.margin"), slowdown = gpu.number("temperature.slowdown");
        if (margin) return *margin < kLeastMargin ? format("{:.0f} C from the limit", *margin) : "";
        if (!now) return std::nullopt;
        const double limit = slowdown.value_or(90);
        return *now > limit - kLeastMargin ? format("{:.0f} C, limit {:.0f} C", *now, limit) : "";
      });
}

struct MemorySize {
  const char* name;
  double gib;
};
// Usable memory as the driver reports it, from data sheets and machines seen; the longest name that fits counts.
constexpr MemorySize kMemorySizes[] = {{"GH200 144G", 139.8}, {"GH200 480GB", 94.5}, {"GB200", 178.4},
    {"GB300", 268}, {"B300", 268}, {"B200", 178.4}, {"H200", 139.8}, {"H100 NVL", 93}, {"H100 80GB", 79.6},
    {"H100 PCIe", 79.6}, {"A100-SXM4-80GB", 79.2}, {"A100 80GB", 79.2}, {"A100-SXM4-40GB", 39.4},
    {"A100-PCIE-40GB", 39.4}, {"L40S", 44.4}, {"L40", 44.4}, {"L4", 22}};

// "H200" is part of "GH200 480GB" and not its name: a name begins and ends with its word.
bool is_named(std::string_view model, std::string_view name) {
  const size_t at = model.find(name);
  if (at == std::string_view::npos) return false;
  const auto is_letter = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0; };
  const bool begins = at == 0 || !is_letter(model[at - 1]);
  const size_t end = at + name.size();
  return begins && (end == model.size() || !is_letter(model[end]));
}

Outcome memory_is_all_there(const Facts& facts) {
  return every_gpu(facts, "GPUs report less memory than their model has", "GPUs have all their memory",
      [](const Gpu& gpu) -> Wrong {
        const auto total = gpu.number("memory.total");
        if (!total || gpu.flag("mig.current")) return std::nullopt;
        for (const MemorySize& size : kMemorySizes)
          if (is_named(gpu.name(), size.name))
            return *total / 1073741824 < size.gib * 0.97
                       ? format("{} of {:.0f} GiB", human_bytes(*total), size.gib)
                       : "";
        return std::nullopt;
      });
}

Outcome gpus_are_alike(const Facts& facts) {
  if (facts.gpu.count() < 2)
    return facts.gpu.gpus ? not_applicable("there is one GPU") : without(facts.gpu.gpus);
  const Gpu& first = facts.gpu.gpus->front();
  return every_gpu(facts,
      format("these differ from GPU 0 ({}, VBIOS {})", first.name(), first.text("vbios").value_or("?")),
      "all GPUs are alike", [&](const Gpu& gpu) -> Wrong {
        if (gpu.name() != first.name()) return gpu.name();
        if (gpu.text("vbios").value_or("") != first.text("vbios").value_or(""))
          return "VBIOS " + gpu.text("vbios").value_or("?");
        return "";
      });
}

Outcome counters_are_open(const Facts& facts) {
  if (facts.host.is_root.value_or(false))
    return facts.has_gpu() ? good("root may use all GPU counters") : not_applicable("there is no GPU");
  return when_known(
      [](const Fields& parameters) {
        const auto restricted = parameters.find("RmProfilingAdminOnly");
        if (restricted == parameters.end()) return unknown("the driver does not say who may profile");
        return restricted->second == "0" ? good("GPU counters are open to all")
                                         : bad("GPU counters are for root alone (ERR_NVGPUCTRPERM)");
      },
      facts.gpu.module_parameters);
}

Outcome gpu_is_fed(const Facts& facts) {
  if (!facts.job) return not_applicable("no job was named (--pid)");
  return every_gpu(facts, "the job's GPUs wait", "the job's GPUs are busy", [&](const Gpu& gpu) -> Wrong {
    const auto use = gpu.number("utilization");
    const bool mine = facts.job->gpus && std::find(facts.job->gpus->begin(), facts.job->gpus->end(),
                                             gpu.index) != facts.job->gpus->end();
    if (!use || !mine) return std::nullopt;
    return *use < 70 ? format("{:.0f} % busy", *use) : "";
  });
}

Outcome draw_is_below_limit(const Facts& facts) {
  return every_gpu(facts, "GPUs are held back by their power limit", "no GPU is at its power limit",
      [](const Gpu& gpu) -> Wrong {
        const auto bits = throttle_bits(gpu);
        const auto draw = gpu.number("power.draw"), limit = gpu.number("power.limit");
        if (!bits || !draw || !limit) return std::nullopt;
        return (*bits & kPowerCap) != 0 && *draw >= 0.97 * *limit
                   ? format("{:.0f} of {:.0f} W", *draw, *limit)
                   : "";
      });
}

Outcome open_module_where_needed(const Facts& facts) {
  if (facts.gpu.compute_capability() < 10)
    return not_applicable("only Blackwell and later need the open kernel module");
  return when_known(
      [](const std::string& license) {
        return judge(license == "open", format("the {} kernel module is loaded", license));
      },
      facts.gpu.module_license);
}

constexpr Check kChecks[] = {
    {"GPU-03", Layer::kGpu, Level::kWarn, 0.02, "The driver stays loaded",
        "Without persistence the driver unloads with the last process and takes a second or more to return.",
        "1-3 s at each start; lost clock and MIG settings", FixKind::kCommand, "run nvidia-persistenced", "",
        "F09,F10", persistence_is_on},
    {"GPU-04", Layer::kGpu, Level::kFail, 0.10, "GPU memory is protected",
        "Without ECC a flipped bit in a weight or KV page passes unseen.",
        "wrong results; on HBM parts ECC costs no capacity", FixKind::kCommand,
        "turn ECC on; it counts from the next reset", "", "G06", ecc_is_on},
    {"GPU-05", Layer::kGpu, Level::kFail, 0.55, "GPU memory has no errors",
        "Uncorrected errors end the process that meets them; a pending row waits for a reset.", "lost jobs",
        FixKind::kAdvice,
        "drain the node, reset GPU {it} (nvidia-smi -i {it} -r), replace it if errors return", "", "G06,J10",
        ecc_counts_nothing},
    {"GPU-06", Layer::kGpu, Level::kFail, 0.40, "MIG fits the job",
        "Slices cannot talk over NVLink; a multi-GPU job on slices copies through the host.",
        "several times slower collectives", FixKind::kCommand, "turn MIG off when nobody uses its slices", "",
        "G03,G04,F10", mig_fits_the_job},
    {"GPU-08", Layer::kGpu, Level::kFail, 0.80, "The driver serves this CUDA",
        "A runtime newer than the driver fails to start (errors 803, 804) or needs the compatibility package.",
        "the program does not start, or runs by fallback", FixKind::kAdvice,
        "upgrade the driver, use an older CUDA image, or install cuda-compat", "", "F09", driver_serves_cuda},
    {"GPU-09", Layer::kGpu, Level::kFail, 0.90, "Kernel module and libraries match",
        "After a package upgrade without reload the old module meets new libraries: every CUDA call fails.",
        "no GPU until the module is loaded again", FixKind::kAdvice,
        "stop GPU users and reload the nvidia modules, or reboot", "", "F09", module_matches_library},
    {"GPU-10", Layer::kGpu, Level::kWarn, 0.10, "The program holds code for this GPU",
        "Machine code runs on its own generation alone; PTX is compiled at first start, which takes minutes and "
        "misses tuned kernels.",
        "slow starts, or 'no kernel image'", FixKind::kSetting,
        "build with -gencode for this GPU's architecture (sm_90a for Hopper kernels)", "", "B06",
        code_fits_the_gpu},
    {"GPU-11", Layer::kGpu, Level::kWarn, 0.20, "Clocks are free in production",
        "A lock left from benchmarking holds the GPU below its boost clock.",
        "in proportion to the missing clock", FixKind::kCommand, "release the locked clocks", "", "G05",
        clocks_are_free},
    {"GPU-12", Layer::kGpu, Level::kFail, 0.30, "GPUs are not slowed down",
        "Heat and power brakes lower the clock; in a synchronous job one slow GPU slows all.",
        "10-60 % of the whole job", FixKind::kFirmware,
        "check cooling, air flow, inlet temperature and the power feeds of GPU {it}", "", "C08,R02,R08,R09",
        gpus_are_not_throttled},
    {"GPU-13", Layer::kGpu, Level::kWarn, 0.15, "The power limit is the card's own",
        "A lower limit caps the clock of compute-bound kernels; memory-bound ones lose little.",
        "10-30 % of matrix work at half the power", FixKind::kCommand,
        "set the card's own power limit, if the rack's power carries it", "", "G05,R03,R08",
        power_limit_is_default},
    {"GPU-14", Layer::kGpu, Level::kWarn, 0.10, "GPUs are cool",
        "At the slow-down temperature the clock drops at once.", "throttling soon", FixKind::kFirmware,
        "check cooling; SXM boards have no fan of their own, the chassis owns it", "", "C08,R02,R07",
        gpus_are_cool},
    {"GPU-17", Layer::kGpu, Level::kWarn, 0.05, "GPUs have all their memory",
        "Missing memory means a wrong part, a reservation or retired rows.", "smaller batches and caches",
        FixKind::kAdvice, "compare with nvidia-smi -q -d MEMORY,ROW_REMAPPER; ask the provider", "", "C02",
        memory_is_all_there},
    {"GPU-25", Layer::kGpu, Level::kWarn, 0.30, "The job keeps its GPUs busy",
        "An idle GPU waits for data, the host or a peer.", "the idle share", FixKind::kAdvice,
        "profile it: cheetah doctor profile on a trace names the wait", "", "A08", gpu_is_fed},
    {"GPU-26", Layer::kGpu, Level::kWarn, 0.05, "All GPUs are alike",
        "In a synchronous job the slowest part sets the pace.", "the difference, times all GPUs",
        FixKind::kAdvice, "update the VBIOS, or keep unlike cards in separate jobs", "", "F09,F13",
        gpus_are_alike},
    {"GPU-27", Layer::kGpu, Level::kInfo, 0, "GPU counters may be read",
        "Nsight Compute and CUPTI need them; without, a profile has times but no causes.", "blind profiling",
        FixKind::kCommand, "set NVreg_RestrictProfilingToAdminUsers=0 for the driver's module", "", "J01",
        counters_are_open},
    {"GPU-31", Layer::kGpu, Level::kInfo, 0.03, "GPUs have power to spare",
        "At the limit the clock follows the power. Normal for dense matrix work at full load.",
        "a few percent of clock", FixKind::kAdvice,
        "nothing, unless it coincides with a lowered limit (GPU-13)", "", "R04,R08", draw_is_below_limit},
    {"GPU-32", Layer::kGpu, Level::kFail, 0.90, "Blackwell runs the open kernel module",
        "The closed module does not drive Blackwell GPUs.", "no GPU", FixKind::kAdvice,
        "install the open kernel module of the driver", "", "F09", open_module_where_needed},
};

}  // namespace

std::span<const Check> gpu_checks() { return kChecks; }

}  // namespace cheetah::doctor
