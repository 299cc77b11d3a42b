// SPDX-License-Identifier: MIT
#pragma once
// What the compiler made of kernels: instructions by kind from a disassembly, resources from ptxas.
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"

namespace cheetah::analysis {

struct KernelCode {
  std::string name;  // as the linker sees it
  std::string arch;  // "sm_90a"; "" when not told
  int64_t instructions = 0;
  // Kinds of instructions that tell how a kernel moves and computes, by the names of instruction_kinds().
  std::map<std::string, int64_t, std::less<>> counts;
  std::optional<int64_t> registers, shared_bytes, stack_bytes, local_bytes, spill_store_bytes,
      spill_load_bytes, barriers;

  int64_t count(std::string_view kind) const;
  bool has_code() const { return instructions > 0; }
  // Known from a disassembly or from ptxas; nullopt when neither told.
  std::optional<bool> spills() const;
  std::string readable_name() const;  // demangled
};

struct InstructionKind {
  std::string_view name, meaning;
};
const std::vector<InstructionKind>& instruction_kinds();

// Reads what `cuobjdump -sass -res-usage`, `nvdisasm` or `ptxas -v` print, also one after the other: what
// they say of one kernel is put together. Other lines are passed over.
std::vector<KernelCode> read_code(std::string_view text);

// What an instruction counts as: "LDG.E.128.CONSTANT" -> load_128, readonly_load. Empty for one of no
// interest.
std::vector<std::string_view> kinds_of(std::string_view opcode);

// A claim about code that a build can be held to: vector-loads, readonly, tma, wgmma, mma, cp-async,
// no-spills.
const std::vector<std::string>& code_claims();
// nullopt: what is known does not tell.
std::optional<bool> claim_holds(const KernelCode& kernel, std::string_view claim);

std::string code_text(const std::vector<KernelCode>& kernels);
Json code_json(const std::vector<KernelCode>& kernels);

}  // namespace cheetah::analysis
