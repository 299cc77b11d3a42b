// SPDX-License-Identifier: MIT
// Opcodes of the machine code, sorted by what they tell about a kernel.
#include <algorithm>

#include "base/error.h"
#include "base/format.h"
#include "base/text.h"
#include "lab/analysis/sass.h"

namespace cheetah::analysis {
namespace {

bool has_part(const std::vector<std::string_view>& parts, std::string_view wanted) {
  return std::ranges::find(parts, wanted) != parts.end();
}

// The bits a lane moves; an access without a width moves 32.
int width_of(const std::vector<std::string_view>& parts) {
  for (const int width : {256, 128, 64})
    if (has_part(parts, format("{}", width))) return width;
  for (const std::string_view part : {"U8", "S8", "U16", "S16"})
    if (has_part(parts, part)) return 16;
  return 32;
}

std::string_view global_kind(bool load, int width) {
  switch (width) {
    case 256:
      return load ? "load_256" : "store_256";
    case 128:
      return load ? "load_128" : "store_128";
    case 64:
      return load ? "load_64" : "store_64";
    case 32:
      return load ? "load_32" : "store_32";
    default:
      return load ? "load_narrow" : "store_narrow";
  }
}

std::string_view shared_kind(bool load, int width) {
  if (width >= 128) return load ? "shared_load_128" : "shared_store_128";
  return load ? "shared_load" : "shared_store";
}

struct Exact {
  std::string_view opcode, kind;
};
constexpr Exact kExact[] = {
    {"LDSM", "ldmatrix"},
    {"STSM", "stmatrix"},
    {"LDGSTS", "cp_async"},
    {"UBLKCP", "tma_bulk"},
    {"UBLKPF", "tma_bulk"},
    {"UBLKRED", "tma_bulk"},
    {"UTMALDG", "tma_tensor"},
    {"UTMASTG", "tma_tensor"},
    {"UTMAREDG", "tma_tensor"},
    {"UTMAPF", "tma_tensor"},
    {"HGMMA", "wgmma"},
    {"QGMMA", "wgmma"},
    {"IGMMA", "wgmma"},
    {"BGMMA", "wgmma"},
    {"HMMA", "mma"},
    {"IMMA", "mma"},
    {"DMMA", "mma"},
    {"QMMA", "mma"},
    {"OMMA", "mma"},
    {"BMMA", "mma"},
    {"SYNCS", "mbarrier"},
    {"BAR", "barrier"},
    {"UCGABAR_ARV", "cluster_barrier"},
    {"UCGABAR_WAIT", "cluster_barrier"},
    {"SHFL", "shuffle"},
    {"REDUX", "shuffle"},
    {"VOTE", "vote"},
    {"VOTEU", "vote"},
    {"MATCH", "vote"},
    {"LDL", "local_load"},
    {"STL", "local_store"},
    {"ATOMG", "atomic"},
    {"ATOMS", "atomic"},
    {"ATOM", "atomic"},
    {"RED", "atomic"},
    {"REDG", "atomic"},
    {"MUFU", "special"},
    {"FFMA", "fp32"},
    {"FFMA2", "fp32"},
    {"FADD", "fp32"},
    {"FMUL", "fp32"},
    {"DFMA", "fp64"},
    {"DADD", "fp64"},
    {"DMUL", "fp64"},
    {"HFMA2", "fp16"},
    {"HADD2", "fp16"},
    {"HMUL2", "fp16"},
    {"IDP", "int_dot"},
    {"BRA", "branch"},
    {"BRX", "branch"},
    {"BSSY", "divergence_point"},
    {"CALL", "call"},
    {"SETMAXREG", "setmaxnreg"},
    {"USETMAXREG", "setmaxnreg"},
};

}  // namespace

const std::vector<InstructionKind>& instruction_kinds() {
  static const std::vector<InstructionKind> kKinds = {
      {"load_256", "global loads of 32 bytes per lane"},
      {"load_128", "global loads of 16 bytes per lane"},
      {"load_64", "global loads of 8 bytes per lane"},
      {"load_32", "global loads of 4 bytes per lane"},
      {"load_narrow", "global loads of 1 or 2 bytes per lane"},
      {"readonly_load", "of these through the read-only path"},
      {"store_256", "global stores of 32 bytes per lane"},
      {"store_128", "global stores of 16 bytes per lane"},
      {"store_64", "global stores of 8 bytes per lane"},
      {"store_32", "global stores of 4 bytes per lane"},
      {"store_narrow", "global stores of 1 or 2 bytes per lane"},
      {"cp_async", "asynchronous copies to shared memory (LDGSTS)"},
      {"tma_bulk", "TMA bulk copies (UBLKCP)"},
      {"tma_tensor", "TMA tensor copies (UTMALDG, UTMASTG)"},
      {"mbarrier", "operations on mbarriers (SYNCS)"},
      {"wgmma", "warp-group matrix products (HGMMA, QGMMA)"},
      {"tcgen05", "Blackwell matrix products (UTC*MMA)"},
      {"mma", "warp matrix products (HMMA, IMMA)"},
      {"ldmatrix", "matrix loads from shared memory"},
      {"stmatrix", "matrix stores to shared memory"},
      {"shared_load_128", "shared loads of 16 bytes per lane"},
      {"shared_load", "narrower shared loads"},
      {"shared_store_128", "shared stores of 16 bytes per lane"},
      {"shared_store", "narrower shared stores"},
      {"local_load", "loads of local memory: spills or arrays"},
      {"local_store", "stores to local memory: spills or arrays"},
      {"fp32", "FP32 math"},
      {"fp16", "packed FP16 and BF16 math"},
      {"fp64", "FP64 math"},
      {"int_dot", "integer dot products"},
      {"special", "special functions (MUFU)"},
      {"shuffle", "shuffles and warp reductions"},
      {"vote", "votes and matches"},
      {"barrier", "block barriers"},
      {"cluster_barrier", "cluster barriers"},
      {"atomic", "atomics"},
      {"branch", "branches"},
      {"divergence_point", "places where lanes may part"},
      {"call", "calls that were not inlined"},
      {"setmaxnreg", "register hand-overs between warp groups"},
  };
  return kKinds;
}

std::vector<std::string_view> kinds_of(std::string_view opcode) {
  const std::vector<std::string_view> parts = split(opcode, '.');
  const std::string_view base = parts[0];
  if (base == "LDG" || base == "LD") {
    std::vector<std::string_view> kinds = {global_kind(true, width_of(parts))};
    if (has_part(parts, "CONSTANT")) kinds.push_back("readonly_load");
    return kinds;
  }
  if (base == "STG" || base == "ST") return {global_kind(false, width_of(parts))};
  if (base == "LDS") return {shared_kind(true, width_of(parts))};
  if (base == "STS") return {shared_kind(false, width_of(parts))};
  if (base.starts_with("UTC") && base.ends_with("MMA")) return {"tcgen05"};
  for (const Exact& exact : kExact)
    if (base == exact.opcode) return {exact.kind};
  return {};
}

const std::vector<std::string>& code_claims() {
  static const std::vector<std::string> kClaims = {
      "vector-loads", "readonly", "tma", "wgmma", "mma", "cp-async", "no-spills"};
  return kClaims;
}

std::optional<bool> claim_holds(const KernelCode& kernel, std::string_view claim) {
  if (claim == "no-spills") {
    const auto spills = kernel.spills();
    return spills ? std::optional<bool>(!*spills) : std::nullopt;
  }
  if (!kernel.has_code()) return std::nullopt;
  const auto any = [&](std::initializer_list<std::string_view> kinds) {
    return std::ranges::any_of(kinds, [&](std::string_view kind) { return kernel.count(kind) > 0; });
  };
  if (claim == "vector-loads") return any({"load_128", "load_256"});
  if (claim == "readonly") return any({"readonly_load"});
  if (claim == "tma") return any({"tma_bulk", "tma_tensor"});
  if (claim == "wgmma") return any({"wgmma", "tcgen05"});
  if (claim == "mma") return any({"mma", "wgmma", "tcgen05"});
  if (claim == "cp-async") return any({"cp_async"});
  throw UsageError(
      format("'{}' is not a claim; known: {}", printable(claim), fmt::join(code_claims(), ", ")));
}

}  // namespace cheetah::analysis
