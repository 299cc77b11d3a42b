// SPDX-License-Identifier: MIT
#include "lab/analysis/occupancy_report.h"

#include "base/format.h"
#include "base/table.h"

namespace cheetah::analysis {
namespace {

std::string names_of(const std::vector<Limiter>& limiters) {
  std::string text;
  for (const Limiter limiter : limiters)
    text += format("{}{}", text.empty() ? "" : " and ", name_of(limiter));
  return text;
}

std::string percent(double share) { return format("{:.4g} %", 100 * share); }

std::string bar(double share) {
  constexpr int kWidth = 40;
  const auto filled = static_cast<size_t>(share * kWidth + 0.5);
  return std::string(filled, '#') + std::string(kWidth - filled, '.');
}

std::string headline(const SmLimits& sm, const LaunchReport& report) {
  const KernelResources& kernel = report.launch.kernel;
  const Occupancy& now = report.occupancy;
  std::string text =
      format("compute capability {}.{} (such as {}): {} threads, {} registers, {} of shared memory\n",
          sm.major, sm.minor, sm.example, kernel.threads, kernel.registers,
          human_bytes(static_cast<double>(kernel.shared_bytes)));
  if (now.blocks == 0) return text + format("cannot be launched: {}\n", now.impossible);
  text += format("{} blocks, {} of {} warps on an SM: {} occupancy, limited by {}\n", now.blocks, now.warps,
      sm.max_warps, percent(now.share), names_of(now.limiters));
  if (now.lane_share < 1) text += format("{} of the lanes have a thread\n", percent(now.lane_share));
  Table table({"resource", "blocks it allows"});
  const auto row = [&](const char* name, int64_t blocks) {
    table.add({name, blocks > 1000000 ? "any" : format("{}", blocks)});
  };
  row("registers", now.blocks_by_registers);
  row("shared memory", now.blocks_by_shared);
  row("warps", now.blocks_by_warps);
  row("block slots", now.blocks_by_slots);
  return text + "\n" + table.render();
}

std::string what_would_help(const SmLimits& sm, const LaunchReport& report) {
  const KernelResources& kernel = report.launch.kernel;
  std::string text;
  const auto add = [&](const std::optional<Step>& step, const std::string& change) {
    if (step)
      text +=
          format("  {} -> {} blocks, {}\n", change, step->occupancy.blocks, percent(step->occupancy.share));
  };
  const auto larger = next_larger_block(sm, kernel), smaller = next_smaller_block(sm, kernel);
  const auto registers = fewer_registers(sm, kernel), shared = less_shared_memory(sm, kernel);
  if (larger) add(larger, format("{} threads per block", larger->kernel.threads));
  if (smaller) add(smaller, format("{} threads per block", smaller->kernel.threads));
  if (registers) add(registers, format("{} registers a thread or fewer", registers->kernel.registers));
  if (shared) add(shared, format("{} bytes of shared memory or less", shared->kernel.shared_bytes));
  return text.empty() ? "no single change fits more warps\n" : "one change that fits more warps:\n" + text;
}

std::string plot(const SmLimits& sm, const LaunchReport& report) {
  std::string text = "\noccupancy by block size\n";
  for (const Step& step : block_size_sweep(sm, report.launch.kernel)) {
    const int64_t threads = step.kernel.threads;
    // Multiples of 64 are enough for the eye; the present size is always among them.
    const bool present = threads == (report.launch.kernel.threads + 31) / 32 * 32;
    if (threads % 64 != 0 && threads != 32 && !present) continue;
    text += format("{}{:>5} {} {:>7}  {}\n", present ? ">" : " ", threads, bar(step.occupancy.share),
        percent(step.occupancy.share), names_of(step.occupancy.limiters));
  }
  return text;
}

std::string steps_text(const char* title, const std::vector<Step>& steps, int64_t KernelResources::*field) {
  std::string text = format("\n{}\n", title);
  for (const Step& step : steps)
    text += format("  {:>7} {} {:>7}\n", format("<={}", step.kernel.*field), bar(step.occupancy.share),
        percent(step.occupancy.share));
  return text;
}

std::string advice_text(const LaunchReport& report) {
  std::string text = "\nlaunch\n";
  for (const Advice& advice : report.advice) {
    constexpr const char* kMarks[] = {"good", "note", "bad "};
    text += format("  {} {}{}\n", kMarks[static_cast<size_t>(advice.level)], advice.what,
        advice.remedy.empty() ? "" : format(": {}", advice.remedy));
  }
  return text;
}

Json occupancy_fields(const Occupancy& now) {
  Json limiters = Json::array();
  for (const Limiter limiter : now.limiters) limiters.push_back(name_of(limiter));
  return {{"blocks", now.blocks}, {"warps", now.warps}, {"percent", 100 * now.share}, {"limiters", limiters},
      {"impossible", now.impossible}, {"lanes_percent", 100 * now.lane_share}};
}

Json kernel_fields(const KernelResources& kernel) {
  return {
      {"threads", kernel.threads}, {"registers", kernel.registers}, {"shared_bytes", kernel.shared_bytes}};
}

Json steps_json(const std::vector<Step>& steps) {
  Json all = Json::array();
  for (const Step& step : steps) {
    Json fields = kernel_fields(step.kernel);
    fields.update(occupancy_fields(step.occupancy));
    all.push_back(std::move(fields));
  }
  return all;
}

}  // namespace

std::string occupancy_text(const SmLimits& sm, const LaunchReport& report) {
  std::string text = headline(sm, report) + "\n" + what_would_help(sm, report) + plot(sm, report);
  const KernelResources& kernel = report.launch.kernel;
  text += steps_text("occupancy by registers", register_steps(sm, kernel), &KernelResources::registers);
  if (kernel.shared_bytes > 0)
    text += steps_text("occupancy by bytes of shared memory, as far as they limit",
        shared_memory_steps(sm, kernel), &KernelResources::shared_bytes);
  text += advice_text(report);
  return text +
         "\nA means, not an end: from 50 to 70 % on more warps seldom help, and low occupancy with "
         "independent work in "
         "each thread can win. Time the neighbours.\n";
}

Json occupancy_json(const SmLimits& sm, const LaunchReport& report) {
  const KernelResources& kernel = report.launch.kernel;
  Json advice = Json::array(), helps = Json::array();
  for (const Advice& one : report.advice) {
    constexpr const char* kLevels[] = {"good", "note", "bad"};
    advice.push_back(
        {{"level", kLevels[static_cast<size_t>(one.level)]}, {"what", one.what}, {"remedy", one.remedy}});
  }
  for (const auto& step : {next_larger_block(sm, kernel), next_smaller_block(sm, kernel),
           fewer_registers(sm, kernel), less_shared_memory(sm, kernel)})
    if (step) helps.push_back(steps_json({*step})[0]);
  Json result = {
      {"compute_capability", format("{}.{}", sm.major, sm.minor)}, {"kernel", kernel_fields(kernel)}};
  result["occupancy"] = occupancy_fields(report.occupancy);
  result["allowed_by"] = {{"registers", report.occupancy.blocks_by_registers},
      {"shared_memory", report.occupancy.blocks_by_shared}, {"warps", report.occupancy.blocks_by_warps},
      {"block_slots", report.occupancy.blocks_by_slots}};
  result["helps"] = std::move(helps);
  result["by_block_size"] = steps_json(block_size_sweep(sm, kernel));
  result["by_registers"] = steps_json(register_steps(sm, kernel));
  result["by_shared_memory"] = steps_json(shared_memory_steps(sm, kernel));
  result["grid_blocks"] = report.launch.blocks();
  result["waves"] = report.waves;
  result["tail_idle_percent"] = 100 * report.tail_idle_share;
  result["advice"] = std::move(advice);
  return result;
}

}  // namespace cheetah::analysis
