// SPDX-License-Identifier: MIT
#include "kernels/gemm/cuda/cublaslt.h"

#include <cublasLt.h>
#include <dlfcn.h>

#include <map>
#include <tuple>

#include "base/format.h"
#include "gpu/check.cuh"

namespace cheetah::gpu {
namespace {

class Library {
 public:
  Library() {
    for (const char* name :
        {"libcublasLt.so.13", "libcublasLt.so.12", "/usr/local/cuda/lib64/libcublasLt.so"})
      if (!library_) library_ = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (library_ && call("cublasLtCreate", &handle_) != CUBLAS_STATUS_SUCCESS) handle_ = nullptr;
  }
  explicit operator bool() const { return handle_ != nullptr; }
  cublasLtHandle_t handle() const { return handle_; }

  template <class... Arguments>
  cublasStatus_t call(const char* name, Arguments... arguments) const {
    auto* function = reinterpret_cast<cublasStatus_t (*)(Arguments...)>(dlsym(library_, name));
    return function ? function(arguments...) : CUBLAS_STATUS_NOT_SUPPORTED;
  }
  template <class... Arguments>
  bool did(const char* name, Arguments... arguments) const {
    return call(name, arguments...) == CUBLAS_STATUS_SUCCESS;
  }

 private:
  void* library_ = nullptr;
  cublasLtHandle_t handle_ = nullptr;
};

// Never unloaded: at the process's end the driver may be gone before it.
const Library& library() {
  static const auto* const loaded = new Library;
  return *loaded;
}

cudaDataType_t type_of(DType dtype) {
  switch (dtype) {
    case DType::kF8E4M3:
      return CUDA_R_8F_E4M3;
    case DType::kF16:
      return CUDA_R_16F;
    case DType::kF32:
      return CUDA_R_32F;
    default:
      return CUDA_R_16BF;
  }
}

// What the library may rely on: it has other kernels for well-aligned operands.
uint32_t alignment_of(const HopperGemmArgs& args) {
  uintptr_t bits = 0;
  for (const void* pointer : {args.x, args.w, static_cast<const void*>(args.y), args.residual})
    bits |= reinterpret_cast<uintptr_t>(pointer);
  return bits % 256 == 0 ? 256 : 16;
}

// Everything a plan depends on: all but the pointers.
auto key_of(const HopperGemmArgs& args) {
  return std::tuple(args.dtype, args.y_dtype, args.m, args.n, args.k, args.x_stride, args.y_stride,
      args.residual ? args.residual_stride : 0, args.bias != nullptr, args.x_scales != nullptr,
      args.workspace_bytes, alignment_of(args));
}

// y^T = W x^T, columns first: the library's own order, and the only one it takes in FP8.
class Plan {
 public:
  explicit Plan(const HopperGemmArgs& args) {
    is_ready_ =
        blas_.did("cublasLtMatmulDescCreate", &operation_, CUBLAS_COMPUTE_32F, CUDA_R_32F) &&
        set(CUBLASLT_MATMUL_DESC_TRANSA, CUBLAS_OP_T) && describe_ending(args) &&
        create(&w_, args.dtype, args.k, args.n, args.k) &&
        create(&x_, args.dtype, args.k, args.m, args.x_stride) &&
        create(&added_, args.y_dtype, args.n, args.m, args.residual ? args.residual_stride : args.y_stride) &&
        create(&y_, args.y_dtype, args.n, args.m, args.y_stride) && choose(args);
  }
  ~Plan() {
    for (cublasLtMatrixLayout_t layout : {w_, x_, added_, y_})
      if (layout) blas_.call("cublasLtMatrixLayoutDestroy", layout);
    if (preference_) blas_.call("cublasLtMatmulPreferenceDestroy", preference_);
    if (operation_) blas_.call("cublasLtMatmulDescDestroy", operation_);
  }
  Plan(const Plan&) = delete;
  Plan& operator=(const Plan&) = delete;
  explicit operator bool() const { return is_ready_; }

  cublasStatus_t run(const HopperGemmArgs& args, Stream& stream) {
    if (!point(args)) return CUBLAS_STATUS_INVALID_VALUE;
    const float one = 1, added = args.residual ? 1 : 0;
    return blas_.call("cublasLtMatmul", blas_.handle(), operation_, static_cast<const void*>(&one), args.w,
        w_, args.x, x_, static_cast<const void*>(&added), args.residual ? args.residual : args.y, added_,
        args.y, y_, static_cast<const cublasLtMatmulAlgo_t*>(&found_.algo),
        static_cast<void*>(args.workspace), static_cast<size_t>(args.workspace_bytes), stream.handle());
  }

 private:
  template <class Value>
  bool set(cublasLtMatmulDescAttributes_t what, Value value) {
    return blas_.did(
        "cublasLtMatmulDescSetAttribute", operation_, what, static_cast<const void*>(&value), sizeof value);
  }
  template <class Value>
  bool prefer(cublasLtMatmulPreferenceAttributes_t what, Value value) {
    return blas_.did("cublasLtMatmulPreferenceSetAttribute", preference_, what,
        static_cast<const void*>(&value), sizeof value);
  }
  bool describe_ending(const HopperGemmArgs& args) {
    if (args.bias && !(set(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS) &&
                         set(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, int32_t{CUDA_R_32F})))
      return false;
    if (args.dtype != DType::kF8E4M3) return true;
    // The tensor cores' own sums, as our kernels take them.
    if (!set(CUBLASLT_MATMUL_DESC_FAST_ACCUM, int8_t{1})) return false;
    return !args.x_scales ||
           (set(CUBLASLT_MATMUL_DESC_A_SCALE_MODE, int32_t{CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F}) &&
               set(CUBLASLT_MATMUL_DESC_B_SCALE_MODE, int32_t{CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F}));
  }
  bool create(cublasLtMatrixLayout_t* layout, DType dtype, int64_t rows, int64_t columns, int64_t stride) {
    return blas_.did("cublasLtMatrixLayoutCreate", layout, type_of(dtype), static_cast<uint64_t>(rows),
        static_cast<uint64_t>(columns), stride);
  }
  // The pointers that belong to the description of the product.
  bool point(const HopperGemmArgs& args) {
    return (!args.bias || set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, args.bias)) &&
           (!args.x_scales || (set(CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, args.w_scales) &&
                                  set(CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, args.x_scales)));
  }
  bool choose(const HopperGemmArgs& args) {
    const uint32_t alignment = alignment_of(args);
    int count = 0;
    return point(args) && blas_.did("cublasLtMatmulPreferenceCreate", &preference_) &&
           prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, static_cast<size_t>(args.workspace_bytes)) &&
           prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignment) &&
           prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, alignment) &&
           prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, alignment) &&
           prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, alignment) &&
           blas_.did("cublasLtMatmulAlgoGetHeuristic", blas_.handle(), operation_, w_, x_, added_, y_,
               preference_, 1, &found_, &count) &&
           count > 0;
  }

  const Library& blas_ = library();
  cublasLtMatmulDesc_t operation_ = nullptr;
  cublasLtMatrixLayout_t w_ = nullptr, x_ = nullptr, added_ = nullptr, y_ = nullptr;
  cublasLtMatmulPreference_t preference_ = nullptr;
  cublasLtMatmulHeuristicResult_t found_{};
  bool is_ready_ = false;
};

// A thread's own: plans hold pointers from one call to the next, and looking for a kernel takes the library
// longer than a small product.
Plan& plan_for(const HopperGemmArgs& args) {
  constexpr size_t kMost = 512;  // prompts have many lengths
  thread_local std::map<decltype(key_of(args)), Plan> plans;
  if (plans.size() >= kMost && !plans.contains(key_of(args))) plans.clear();
  return plans.try_emplace(key_of(args), args).first->second;
}

}  // namespace

bool cublaslt_fits(const HopperGemmArgs& args) {
  const auto is_aligned = [](const void* pointer) { return reinterpret_cast<uintptr_t>(pointer) % 16 == 0; };
  const int64_t piece = args.dtype == DType::kF8E4M3 ? 16 : 8;
  const bool scales_fit = !args.block_scales && (args.x_scales == nullptr) == (args.w_scales == nullptr);
  return !args.gated && scales_fit && args.m > 0 && args.n % 8 == 0 && args.k > 0 && args.k % piece == 0 &&
         args.x_stride % piece == 0 && args.y_stride % 8 == 0 && is_aligned(args.x) && is_aligned(args.w) &&
         is_aligned(args.y) && is_aligned(args.residual) && is_aligned(args.workspace) && library() &&
         plan_for(args);
}

void cublaslt_gemm(const HopperGemmArgs& args, Stream& stream) {
  LaunchRecord record{.kernel = "cublaslt_gemm", .num_numbers = 3};
  record.numbers[0] = args.m, record.numbers[1] = args.n, record.numbers[2] = args.k;
  stream.log().add(record);
  const cublasStatus_t status = plan_for(args).run(args, stream);
  if (status != CUBLAS_STATUS_SUCCESS)
    throw Error(format("cuBLASLt refused a product of {} x {} x {} (error {})", args.m, args.n, args.k,
        static_cast<int>(status)));
}

}  // namespace cheetah::gpu
