// SPDX-License-Identifier: MIT
#include "lab/analysis/sass.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include "base/error.h"

namespace cheetah::analysis {
namespace {

// In the form of `cuobjdump -sass -res-usage`.
constexpr const char* kDisassembly = R"(
Fatbin elf code:
================
arch = sm_90a
code version = [1,8]
host = linux
compile_size = 64bit

	code for sm_90a
		Function : _Z4copyP6float4PKS_i
	.headerflags	@"EF_CUDA_TEXMODE_UNIFIED EF_CUDA_64BIT_ADDRESS EF_CUDA_SM90"
        /*0000*/                   LDC R1, c[0x0][0x28] ;                                /* 0x00000a00ff017b82 */
                                                                                         /* 0x000fe20000000800 */
        /*0010*/                   S2R R0, SR_TID.X ;                                    /* 0x0000000000007919 */
        /*0020*/               @P0 EXIT ;                                                /* 0x000000000000094d */
        /*0030*/                   LDG.E.128.CONSTANT R4, desc[UR4][R2.64] ;             /* 0x0000000402047981 */
        /*0040*/              @!P1 LDG.E R8, desc[UR4][R2.64+0x10] ;                     /* 0x0000000402087981 */
        /*0050*/                   STG.E.128 desc[UR4][R6.64], R4 ;                      /* 0x0000000406007986 */
        /*0060*/                   STL [R1+0x8], R4 ;                                    /* 0x0000080401007387 */
        /*0070*/                   EXIT ;                                                /* 0x000000000000794d */
		Function : _ZN7cheetah4gemmEv
        /*0000*/                   UTMALDG.2D [UR8], [UR4] ;                             /* 0x00000008040075b4 */
        /*0010*/                   UBLKCP.S.G [UR8], [UR4], UR6 ;                        /* 0x00000008040073ba */
        /*0020*/                   SYNCS.EXCH.64 URZ, [UR4], UR6 ;                       /* 0x00000006043f75b2 */
        /*0030*/                   HGMMA.64x128x16.F32.BF16 R24, gdesc[UR4], R24 ;       /* 0x01e00000041879f0 */
        /*0040*/                   LDGSTS.E.BYPASS.128 [R3], desc[UR6][R4.64] ;          /* 0x0000000004037fae */
        /*0050*/                   LDSM.16.M88.4 R4, [R2] ;                              /* 0x000000000204783b */
        /*0060*/                   LDS.128 R4, [R2] ;                                    /* 0x0000000002047984 */
        /*0070*/                   STS.U16 [R2], R4 ;                                    /* 0x0000000402007388 */
        /*0080*/                   HMMA.16816.F32.BF16 R4, R8, R10, R4 ;                 /* 0x0000000a0804723c */
        /*0090*/                   FFMA R4, R5, R6, R7 ;                                 /* 0x0000000605047223 */
        /*00a0*/                   BAR.SYNC.DEFER_BLOCKING 0x0 ;                         /* 0x0000000000007b1d */
        /*00b0*/                   SHFL.BFLY PT, R5, R4, 0x10, 0x1f ;                    /* 0x0e001f0004057f89 */
		...................................

Resource usage:
 Common:
  GLOBAL:0
 Function _Z4copyP6float4PKS_i:
  REG:12 STACK:16 SHARED:0 LOCAL:0 CONSTANT[0]:556 TEXTURE:0 SURFACE:0 SAMPLER:0
 Function _ZN7cheetah4gemmEv:
  REG:168 STACK:0 SHARED:1024 LOCAL:0 CONSTANT[0]:640 TEXTURE:0 SURFACE:0 SAMPLER:0
)";

// In the form of `ptxas -v`.
constexpr const char* kReport = R"(
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function '_Z5spillPf' for 'sm_90a'
ptxas info    : Function properties for _Z5spillPf
    800 bytes stack frame, 24 bytes spill stores, 40 bytes spill loads
ptxas info    : Used 32 registers, used 0 barriers, 800 bytes cumulative stack size
ptxas info    : Compile time = 21.000 ms
ptxas info    : Compiling entry function '_Z4axpyPfPKffi' for 'sm_90a'
ptxas info    : Function properties for _Z4axpyPfPKffi
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 14 registers, used 1 barriers, 1024 bytes smem
ptxas info    : Compile time = 4.000 ms
)";

TEST(Sass, InstructionsAreSortedByKindAndKernel) {
  const auto kernels = read_code(kDisassembly);
  ASSERT_EQ(kernels.size(), 2u);
  const KernelCode& copy = kernels[0];
  EXPECT_EQ(copy.arch, "sm_90a");
  EXPECT_EQ(copy.readable_name(), "copy(float4*, float4 const*, int)");
  EXPECT_EQ(copy.instructions, 8);
  EXPECT_EQ(copy.count("load_128"), 1);
  EXPECT_EQ(copy.count("load_32"), 1);
  EXPECT_EQ(copy.count("readonly_load"), 1);
  EXPECT_EQ(copy.count("store_128"), 1);
  EXPECT_EQ(copy.count("local_store"), 1);
  EXPECT_EQ(copy.registers, 12);
  EXPECT_EQ(copy.stack_bytes, 16);
  EXPECT_EQ(copy.spills(), true);
  const KernelCode& gemm = kernels[1];
  for (const char* kind : {"tma_tensor", "tma_bulk", "mbarrier", "wgmma", "cp_async", "ldmatrix",
           "shared_load_128", "shared_store", "mma", "fp32", "barrier", "shuffle"})
    EXPECT_EQ(gemm.count(kind), 1) << kind;
  EXPECT_EQ(gemm.registers, 168);
  EXPECT_EQ(gemm.shared_bytes, 1024);
  EXPECT_EQ(gemm.spills(), false);
}

TEST(Sass, ThePtxasReportGivesResourcesAndSpills) {
  const auto kernels = read_code(kReport);
  ASSERT_EQ(kernels.size(), 2u);
  EXPECT_EQ(kernels[0].name, "_Z5spillPf");
  EXPECT_EQ(kernels[0].registers, 32);
  EXPECT_EQ(kernels[0].stack_bytes, 800);
  EXPECT_EQ(kernels[0].spill_store_bytes, 24);
  EXPECT_EQ(kernels[0].spill_load_bytes, 40);
  EXPECT_EQ(kernels[0].shared_bytes, 0);
  EXPECT_EQ(kernels[0].spills(), true);
  EXPECT_EQ(kernels[1].shared_bytes, 1024);
  EXPECT_EQ(kernels[1].barriers, 1);
  EXPECT_EQ(kernels[1].spills(), false);
  EXPECT_FALSE(kernels[1].has_code());
  EXPECT_NE(code_text(kernels).find("instructions are not known"), std::string::npos);
}

TEST(Sass, ClaimsHoldFailOrCannotBeTold) {
  const auto code = read_code(kDisassembly), report = read_code(kReport);
  EXPECT_EQ(claim_holds(code[0], "vector-loads"), true);
  EXPECT_EQ(claim_holds(code[0], "tma"), false);
  EXPECT_EQ(claim_holds(code[0], "no-spills"), false);
  EXPECT_EQ(claim_holds(code[1], "wgmma"), true);
  EXPECT_EQ(claim_holds(report[1], "no-spills"), true);
  EXPECT_EQ(claim_holds(report[1], "wgmma"), std::nullopt);
  EXPECT_THROW(claim_holds(code[0], "speed"), UsageError);
}

TEST(Sass, WidthsFollowTheOpcode) {
  using Kinds = std::vector<std::string_view>;
  EXPECT_EQ(kinds_of("LDG.E.64"), Kinds{"load_64"});
  EXPECT_EQ(kinds_of("LDG.E.U8"), Kinds{"load_narrow"});
  EXPECT_EQ(kinds_of("LDG.E.ENL2.256"), Kinds{"load_256"});
  EXPECT_EQ(kinds_of("ST.E"), Kinds{"store_32"});
  EXPECT_EQ(kinds_of("UTCHMMA"), Kinds{"tcgen05"});
  EXPECT_EQ(kinds_of("QGMMA.64x64x32.F32.E4M3.E4M3"), Kinds{"wgmma"});
  EXPECT_TRUE(kinds_of("MOV").empty());
}

TEST(Sass, AnyTextIsRead) {
  EXPECT_TRUE(rc::check("text", [](const std::string& bytes) {
    read_code(bytes);
    read_code("Function : f\n/*0010*/ " + bytes + "\nptxas info    : Used " + bytes);
    read_code("ptxas info : Compiling entry function '" + bytes);
  }));
}

}  // namespace
}  // namespace cheetah::analysis
