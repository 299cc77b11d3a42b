// SPDX-License-Identifier: MIT
// Fixes of GPUs. A GPU is named by its bus address: its number changes when another one is lost.
#include <algorithm>

#include "base/error.h"
#include "base/format.h"
#include "doctor/fixes/fix.h"

namespace cheetah::doctor {
namespace {

const Gpu* gpu_named(const FixBuilder& fix, const std::string& name) {
  if (fix.facts.gpu.gpus)
    for (const Gpu& gpu : *fix.facts.gpu.gpus)
      if (name == format("{}", gpu.index) || name == format("GPU {}", gpu.index) ||
          contains(name, gpu.address()))
        return gpu.address().empty() ? nullptr : &gpu;
  return nullptr;
}

template <class Act>
void each_gpu(FixBuilder& fix, Act act) {
  for (const Subject& subject : fix.outcome.subjects)
    if (const Gpu* gpu = gpu_named(fix, subject.name))
      act(*gpu);
    else
      fix.note(format("GPU {} tells no bus address: it is left alone", printable(subject.name)));
}

bool in_use(const FixBuilder& fix) {
  const auto gpus = fix.facts.gpu.gpus.value_or({});
  return std::any_of(gpus.begin(), gpus.end(), [](const Gpu& gpu) { return !gpu.processes().empty(); });
}

void smi(FixBuilder& fix, When when, const Gpu& gpu, std::vector<std::string> arguments,
    std::vector<std::string> undo) {
  std::vector<std::string> command{"nvidia-smi", "-i", gpu.address()}, back = command;
  command.insert(command.end(), arguments.begin(), arguments.end());
  back.insert(back.end(), undo.begin(), undo.end());
  fix.run(when, command, undo.empty() ? undo : back);
}

void keep_driver_loaded(FixBuilder& fix) {
  if (fix.has_unit("nvidia-persistenced")) return fix.start("nvidia-persistenced");
  for (const Gpu& gpu : fix.facts.gpu.gpus.value_or({}))
    if (!gpu.flag("persistence") && !gpu.address().empty())
      smi(fix, When::kNow, gpu, {"-pm", "1"}, {"-pm", "0"});
  fix.note("for good, install and enable nvidia-persistenced: persistence mode ends with the next boot");
}

void open_device_files(FixBuilder& fix) {
  for (const Subject& subject : fix.outcome.subjects)
    if (subject.was != "missing")
      return fix.refuse(
          format("/{} is there and this user or control group may not open it: join the group that "
                 "owns it, or pass the device to the container",
              printable(subject.name)));
  fix.run(When::kNow, {"nvidia-modprobe", "-u", "-c", "0"}, {});
  fix.note("it makes missing device files, which go away with the driver: nothing is to be undone");
}

void turn_ecc_on(FixBuilder& fix) {
  each_gpu(fix, [&](const Gpu& gpu) {
    const bool was = gpu.number("ecc.pending").value_or(gpu.number("ecc.current").value_or(0)) != 0;
    if (was) return fix.note(format("GPU {} turns ECC on at its next reset", gpu.index));
    smi(fix, When::kLasting, gpu, {"-e", "1"}, {"-e", "0"});
  });
  fix.note("takes effect at the next reset of the GPU or reboot; the board keeps it");
}

void explain_mig(FixBuilder& fix) {
  std::string users;
  each_gpu(fix, [&](const Gpu& gpu) {
    for (const GpuProcess& process : gpu.processes())
      users += format("{}{}", users.empty() ? "" : ", ", process.pid);
  });
  const std::string command = rendered("'nvidia-smi -i {it} -mig 0'", fix.outcome);
  if (!users.empty())
    return fix.refuse(
        format("processes {} use slices of these GPUs and would lose them; move them first, then {}", users,
            command));
  fix.refuse(
      format("turning MIG off destroys the slices, which cannot be put back from what was read: note them "
             "('nvidia-smi mig -lgi', '-lci'), make sure that no pod holds one, then {}",
          command));
}

void free_clocks(FixBuilder& fix) {
  each_gpu(fix, [&](const Gpu& gpu) {
    const auto held = gpu.number("clock.sm");
    if (!held)
      return fix.note(format("GPU {} does not tell the clock it is held at: it is left alone", gpu.index));
    smi(fix, When::kNow, gpu, {"-rgc"}, {"-lgc", format("{:.0f},{:.0f}", *held, *held)});
  });
  fix.note("a driver starts with free clocks: remove what locks them at boot");
}

void lift_power_limit(FixBuilder& fix) {
  each_gpu(fix, [&](const Gpu& gpu) {
    const auto limit = gpu.number("power.limit"), own = gpu.number("power.default");
    if (limit && own)
      smi(fix, When::kNow, gpu, {"-pl", format("{:.0f}", *own)}, {"-pl", format("{:.0f}", *limit)});
  });
  fix.note(
      "the rack's power must carry it: ask who lowered the limit; a driver starts with the card's own, so remove "
      "what lowers it at boot");
}

void explain_sharing(FixBuilder& fix) {
  fix.refuse(
      "MPS serves only processes that start after it, and a GPU that runs others gains nothing: end them, "
      "start 'nvidia-cuda-mps-control -d', start them again; or give each its own GPU or MIG slice");
}

void open_counters(FixBuilder& fix) {
  fix.create("etc/modprobe.d/cheetah-GPU-27.conf", "options nvidia NVreg_RestrictProfilingToAdminUsers=0");
  fix.note(
      "takes effect when the driver is loaded again, at the latest after a reboot; every user of the machine "
      "may then watch the GPU's counters");
}

void allow_compute(FixBuilder& fix) {
  each_gpu(fix, [&](const Gpu& gpu) {
    const auto mode = gpu.number("compute_mode");
    if (mode) smi(fix, When::kNow, gpu, {"-c", "0"}, {"-c", format("{:.0f}", *mode)});
  });
}

void join_fabric(FixBuilder& fix) {
  if (!fix.has_unit("nvidia-fabricmanager"))
    return fix.refuse(
        "no nvidia-fabricmanager is installed here: on trays of a rack-wide NVLink domain (GB200, GB300) "
        "the switch trays run it, see nvidia-imex and the fabric's own manager; on an HGX board install "
        "the version of the driver");
  if (!fix.facts.host.runs("nv-fabricmanage")) return fix.start("nvidia-fabricmanager");
  if (in_use(fix))
    return fix.refuse(
        "the fabric manager runs and programs use the GPUs: restarting it ends their NVLink traffic; read "
        "/var/log/fabricmanager.log first");
  fix.run(When::kNow, {"systemctl", "restart", "nvidia-fabricmanager"}, {});
}

void load_peermem(FixBuilder& fix) { fix.load_module("nvidia-peermem"); }

constexpr PlannerOf kPlanners[] = {{"GPU-01", open_device_files}, {"GPU-03", keep_driver_loaded},
    {"MSR-20", keep_driver_loaded}, {"GPU-04", turn_ecc_on}, {"GPU-06", explain_mig}, {"GPU-11", free_clocks},
    {"GPU-13", lift_power_limit}, {"GPU-23", explain_sharing}, {"GPU-27", open_counters},
    {"GPU-42", allow_compute}, {"GPU-21", join_fabric}, {"GPU-24", load_peermem}};

}  // namespace

std::span<const PlannerOf> gpu_fixes() { return kPlanners; }

}  // namespace cheetah::doctor
