// SPDX-License-Identifier: MIT
#include "base/format.h"
#include "base/table.h"
#include "lab/analysis/sass.h"

namespace cheetah::analysis {
namespace {

std::string number(const std::optional<int64_t>& value) { return value ? format("{}", *value) : "?"; }

// What the numbers mean, in sentences.
std::vector<std::string> remarks(const KernelCode& kernel) {
  std::vector<std::string> lines;
  const auto spills = kernel.spills();
  if (spills == true)
    lines.push_back(kernel.spill_store_bytes
                        ? format("spills: {} bytes stored, {} loaded a thread", *kernel.spill_store_bytes,
                              kernel.spill_load_bytes.value_or(0))
                        : "uses local memory: spilled registers, or an array indexed at run time");
  if (!kernel.has_code()) {
    lines.push_back("no disassembly: instructions are not known");
    return lines;
  }
  const int64_t wide = kernel.count("load_128") + kernel.count("load_256");
  const int64_t narrow = kernel.count("load_64") + kernel.count("load_32") + kernel.count("load_narrow");
  if (wide + narrow > 0)
    lines.push_back(format("{} of {} global loads move 16 bytes per lane or more", wide, wide + narrow));
  if (kernel.count("tma_tensor") + kernel.count("tma_bulk") > 0) lines.push_back("copies by TMA");
  if (kernel.count("cp_async") > 0) lines.push_back("copies with cp.async");
  if (kernel.count("wgmma") > 0) lines.push_back("computes with WGMMA");
  if (kernel.count("tcgen05") > 0) lines.push_back("computes with tcgen05");
  if (kernel.count("mma") > 0) lines.push_back("computes with MMA on tensor cores");
  return lines;
}

std::string kernel_text(const KernelCode& kernel) {
  std::string text =
      format("{}{}\n", kernel.readable_name(), kernel.arch.empty() ? "" : format("  [{}]", kernel.arch));
  text += format("  registers {}, shared {} bytes, stack {} bytes", number(kernel.registers),
      number(kernel.shared_bytes), number(kernel.stack_bytes));
  if (kernel.has_code()) text += format(", {} instructions", kernel.instructions);
  text += "\n";
  for (const std::string& line : remarks(kernel)) text += format("  {}\n", line);
  for (const InstructionKind& kind : instruction_kinds())
    if (const int64_t count = kernel.count(kind.name); count > 0)
      text += format("    {:>6}  {}\n", count, kind.meaning);
  return text;
}

}  // namespace

std::string code_text(const std::vector<KernelCode>& kernels) {
  std::string text;
  for (const KernelCode& kernel : kernels) text.append(text.empty() ? "" : "\n").append(kernel_text(kernel));
  return text + "\nCounts are of the code, not of what runs: a loop's body counts once.\n";
}

Json code_json(const std::vector<KernelCode>& kernels) {
  Json all = Json::array();
  for (const KernelCode& kernel : kernels) {
    Json one = {{"name", kernel.readable_name()}, {"symbol", kernel.name}, {"arch", kernel.arch}};
    const auto add = [&](const char* name, const std::optional<int64_t>& value) {
      if (value) one[name] = *value;
    };
    add("registers", kernel.registers);
    add("shared_bytes", kernel.shared_bytes);
    add("stack_bytes", kernel.stack_bytes);
    add("local_bytes", kernel.local_bytes);
    add("spill_store_bytes", kernel.spill_store_bytes);
    add("spill_load_bytes", kernel.spill_load_bytes);
    if (const auto spills = kernel.spills()) one["spills"] = *spills;
    if (kernel.has_code()) one.update({{"instructions", kernel.instructions}, {"counts", kernel.counts}});
    one["remarks"] = remarks(kernel);
    all.push_back(std::move(one));
  }
  return {{"kernels", std::move(all)}};
}

}  // namespace cheetah::analysis
