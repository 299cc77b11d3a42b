// SPDX-License-Identifier: MIT
#pragma once
// Three kernels in PTX, compiled by the driver for whatever GPU this is: fill memory, check it, compare two buffers.
#include <cstdint>

#include "doctor/measure/cuda.h"

namespace cheetah::doctor {

// Word i of a pattern is (i * factor) ^ seed: with factor 0 every word is the seed, else each word names its place.
constexpr const char* kPatternKernels = R"ptx(
.version 7.0
.target sm_70
.address_size 64

.visible .entry fill(.param .u64 memory, .param .u64 words, .param .u64 factor, .param .u64 seed) {
  .reg .pred %done;
  .reg .b32 %r<5>;
  .reg .b64 %a, %n, %f, %s, %i, %step, %value, %place, %t;
  ld.param.u64 %a, [memory];
  ld.param.u64 %n, [words];
  ld.param.u64 %f, [factor];
  ld.param.u64 %s, [seed];
  cvta.to.global.u64 %a, %a;
  mov.u32 %r1, %ctaid.x;
  mov.u32 %r2, %ntid.x;
  mov.u32 %r3, %tid.x;
  mov.u32 %r4, %nctaid.x;
  mul.wide.u32 %i, %r1, %r2;
  cvt.u64.u32 %t, %r3;
  add.u64 %i, %i, %t;
  mul.wide.u32 %step, %r4, %r2;
FILL_NEXT:
  setp.ge.u64 %done, %i, %n;
  @%done bra FILL_END;
  mul.lo.u64 %value, %i, %f;
  xor.b64 %value, %value, %s;
  shl.b64 %place, %i, 3;
  add.u64 %place, %a, %place;
  st.global.u64 [%place], %value;
  add.u64 %i, %i, %step;
  bra FILL_NEXT;
FILL_END:
  ret;
}

.visible .entry check(.param .u64 memory, .param .u64 words, .param .u64 factor, .param .u64 seed, .param .u64 wrong) {
  .reg .pred %done, %same;
  .reg .b32 %r<5>;
  .reg .b64 %a, %n, %f, %s, %w, %i, %step, %value, %place, %t, %found;
  ld.param.u64 %a, [memory];
  ld.param.u64 %n, [words];
  ld.param.u64 %f, [factor];
  ld.param.u64 %s, [seed];
  ld.param.u64 %w, [wrong];
  cvta.to.global.u64 %a, %a;
  cvta.to.global.u64 %w, %w;
  mov.u32 %r1, %ctaid.x;
  mov.u32 %r2, %ntid.x;
  mov.u32 %r3, %tid.x;
  mov.u32 %r4, %nctaid.x;
  mul.wide.u32 %i, %r1, %r2;
  cvt.u64.u32 %t, %r3;
  add.u64 %i, %i, %t;
  mul.wide.u32 %step, %r4, %r2;
CHECK_NEXT:
  setp.ge.u64 %done, %i, %n;
  @%done bra CHECK_END;
  mul.lo.u64 %value, %i, %f;
  xor.b64 %value, %value, %s;
  shl.b64 %place, %i, 3;
  add.u64 %place, %a, %place;
  ld.global.u64 %found, [%place];
  setp.eq.u64 %same, %found, %value;
  @%same bra CHECK_GOOD;
  red.global.add.u64 [%w], 1;
CHECK_GOOD:
  add.u64 %i, %i, %step;
  bra CHECK_NEXT;
CHECK_END:
  ret;
}

.visible .entry compare(.param .u64 left, .param .u64 right, .param .u64 words, .param .u64 wrong) {
  .reg .pred %done, %same;
  .reg .b32 %r<5>;
  .reg .b64 %a, %b, %n, %w, %i, %step, %p, %q, %t, %x, %y;
  ld.param.u64 %a, [left];
  ld.param.u64 %b, [right];
  ld.param.u64 %n, [words];
  ld.param.u64 %w, [wrong];
  cvta.to.global.u64 %a, %a;
  cvta.to.global.u64 %b, %b;
  cvta.to.global.u64 %w, %w;
  mov.u32 %r1, %ctaid.x;
  mov.u32 %r2, %ntid.x;
  mov.u32 %r3, %tid.x;
  mov.u32 %r4, %nctaid.x;
  mul.wide.u32 %i, %r1, %r2;
  cvt.u64.u32 %t, %r3;
  add.u64 %i, %i, %t;
  mul.wide.u32 %step, %r4, %r2;
COMPARE_NEXT:
  setp.ge.u64 %done, %i, %n;
  @%done bra COMPARE_END;
  shl.b64 %t, %i, 3;
  add.u64 %p, %a, %t;
  add.u64 %q, %b, %t;
  ld.global.u64 %x, [%p];
  ld.global.u64 %y, [%q];
  setp.eq.u64 %same, %x, %y;
  @%same bra COMPARE_GOOD;
  red.global.add.u64 [%w], 1;
COMPARE_GOOD:
  add.u64 %i, %i, %step;
  bra COMPARE_NEXT;
COMPARE_END:
  ret;
}
)ptx";

// The kernels on one context, with the count of wrong words.
class PatternKernels {
 public:
  PatternKernels(const RuntimeLibrary& cuda, const Context& context)
      : cuda_(cuda), context_(context), wrong_(cuda, sizeof(uint64_t)) {
    ok_ = wrong_.ok() && cuda.call("cuModuleLoadData", &module_, static_cast<const void*>(kPatternKernels)) &&
          cuda.call("cuModuleGetFunction", &fill_, module_, "fill") &&
          cuda.call("cuModuleGetFunction", &check_, module_, "check") &&
          cuda.call("cuModuleGetFunction", &compare_, module_, "compare") && reset();
  }
  ~PatternKernels() {
    if (module_ != nullptr) cuda_.call("cuModuleUnload", module_);
  }
  PatternKernels(const PatternKernels&) = delete;
  PatternKernels& operator=(const PatternKernels&) = delete;
  bool ok() const { return ok_; }

  bool fill(CudaPointer memory, uint64_t words, uint64_t factor, uint64_t seed) const {
    void* arguments[] = {&memory, &words, &factor, &seed};
    return launch(fill_, arguments);
  }
  bool check(CudaPointer memory, uint64_t words, uint64_t factor, uint64_t seed) const {
    CudaPointer wrong = wrong_.get();
    void* arguments[] = {&memory, &words, &factor, &seed, &wrong};
    return launch(check_, arguments);
  }
  bool compare(CudaPointer left, CudaPointer right, uint64_t words) const {
    CudaPointer wrong = wrong_.get();
    void* arguments[] = {&left, &right, &words, &wrong};
    return launch(compare_, arguments);
  }
  // Wrong words since the start; -1 when the GPU did not answer.
  double wrong() const {
    uint64_t count = 0;
    if (!context_.wait() ||
        !cuda_.call("cuMemcpyDtoH_v2", static_cast<void*>(&count), wrong_.get(), sizeof count))
      return -1;
    return static_cast<double>(count);
  }

 private:
  bool reset() const { return cuda_.call("cuMemsetD32_v2", wrong_.get(), 0u, size_t{2}); }
  bool launch(CudaHandle function, void** arguments) const {
    constexpr unsigned kBlocks = 4096, kThreads = 256;
    return cuda_.call("cuLaunchKernel", function, kBlocks, 1u, 1u, kThreads, 1u, 1u, 0u, context_.stream(),
        arguments, static_cast<void**>(nullptr));
  }
  const RuntimeLibrary& cuda_;
  const Context& context_;
  DeviceMemory wrong_;
  CudaHandle module_ = nullptr, fill_ = nullptr, check_ = nullptr, compare_ = nullptr;
  bool ok_ = false;
};

}  // namespace cheetah::doctor
