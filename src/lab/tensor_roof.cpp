#include "lab/tensor_roof.h"

#include <cublasLt.h>
#include <dlfcn.h>

#include <algorithm>
#include <vector>

#include "base/random.h"

namespace cheetah::lab {
namespace {

// cuBLASLt is large and not on every machine: loaded where it is, never linked.
class BlasLt {
 public:
  BlasLt() {
    for (const char* name :
         {"libcublasLt.so.13", "libcublasLt.so.12", "/usr/local/cuda/lib64/libcublasLt.so"})
      if (library_ == nullptr) library_ = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (library_ != nullptr && !call("cublasLtCreate", &handle_)) handle_ = nullptr;
  }
  ~BlasLt() {
    if (handle_ != nullptr) call("cublasLtDestroy", handle_);
    if (library_ != nullptr) dlclose(library_);
  }
  BlasLt(const BlasLt&) = delete;
  BlasLt& operator=(const BlasLt&) = delete;
  explicit operator bool() const { return handle_ != nullptr; }
  cublasLtHandle_t handle() const { return handle_; }

  // True when NAME succeeded; a function this library lacks is a failed call.
  template <class... Arguments>
  bool call(const char* name, Arguments... arguments) const {
    auto* function = reinterpret_cast<cublasStatus_t (*)(Arguments...)>(dlsym(library_, name));
    return function != nullptr && function(arguments...) == CUBLAS_STATUS_SUCCESS;
  }

 private:
  void* library_ = nullptr;
  cublasLtHandle_t handle_ = nullptr;
};

constexpr uint64_t kSide = 8192;
constexpr size_t kWorkspaceBytes = size_t{32} << 20;

// One product D = A^T B, columns first: what the library likes best, and all that it takes in FP8.
class Product {
 public:
  Product(const BlasLt& blas, cudaDataType_t input) : blas_(blas) {
    const cublasOperation_t transposed = CUBLAS_OP_T;
    ready_ = blas_.call("cublasLtMatmulDescCreate", &operation_, CUBLAS_COMPUTE_32F, CUDA_R_32F) &&
             blas_.call("cublasLtMatmulDescSetAttribute", operation_, CUBLASLT_MATMUL_DESC_TRANSA,
                        static_cast<const void*>(&transposed), sizeof transposed) &&
             create(&inputs_, input) && create(&output_, CUDA_R_16BF) && choose();
  }
  ~Product() {
    for (cublasLtMatrixLayout_t layout : {inputs_, output_})
      if (layout != nullptr) blas_.call("cublasLtMatrixLayoutDestroy", layout);
    if (preference_ != nullptr) blas_.call("cublasLtMatmulPreferenceDestroy", preference_);
    if (operation_ != nullptr) blas_.call("cublasLtMatmulDescDestroy", operation_);
  }
  Product(const Product&) = delete;
  Product& operator=(const Product&) = delete;
  explicit operator bool() const { return ready_; }

  bool run(const std::byte* in, std::byte* out, std::byte* workspace, gpu::Stream& stream) const {
    const float one = 1, zero = 0;
    return blas_.call("cublasLtMatmul", blas_.handle(), operation_, static_cast<const void*>(&one),
                      static_cast<const void*>(in), inputs_, static_cast<const void*>(in), inputs_,
                      static_cast<const void*>(&zero), static_cast<const void*>(out), output_,
                      static_cast<void*>(out), output_,
                      static_cast<const cublasLtMatmulAlgo_t*>(&found_.algo), static_cast<void*>(workspace),
                      kWorkspaceBytes, stream.handle());
  }

 private:
  bool create(cublasLtMatrixLayout_t* layout, cudaDataType_t type) {
    return blas_.call("cublasLtMatrixLayoutCreate", layout, type, kSide, kSide, static_cast<int64_t>(kSide));
  }
  bool choose() {
    int count = 0;
    return blas_.call("cublasLtMatmulPreferenceCreate", &preference_) &&
           blas_.call("cublasLtMatmulPreferenceSetAttribute", preference_,
                      CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, static_cast<const void*>(&kWorkspaceBytes),
                      sizeof kWorkspaceBytes) &&
           blas_.call("cublasLtMatmulAlgoGetHeuristic", blas_.handle(), operation_, inputs_, inputs_, output_,
                      output_, preference_, 1, &found_, &count) &&
           count > 0;
  }

  const BlasLt& blas_;
  cublasLtMatmulDesc_t operation_ = nullptr;
  cublasLtMatrixLayout_t inputs_ = nullptr, output_ = nullptr;
  cublasLtMatmulPreference_t preference_ = nullptr;
  cublasLtMatmulHeuristicResult_t found_{};
  bool ready_ = false;
};

// Random numbers below 2: equal ones would switch fewer wires, take less power and flatter the clock.
void fill_randomly(const gpu::DeviceBuffer& to, TensorInput input, gpu::Stream& stream) {
  constexpr int64_t kPiece = int64_t{4} << 20;
  std::vector<uint8_t> bytes(static_cast<size_t>(kPiece));
  for (size_t i = 0; i < bytes.size(); ++i) {
    const auto byte = static_cast<uint8_t>(philox_at(1, 0, i / 4) >> (8 * (i % 4)));
    const bool is_high = i % 2 == 1;
    bytes[i] = input == TensorInput::kFp8 ? byte & 0xBF : is_high ? (byte & 0x83) | 0x3C : byte;
  }
  for (int64_t at = 0; at < to.size(); at += kPiece)
    gpu::copy_to_device(to.data() + at, bytes.data(), std::min(kPiece, to.size() - at), stream);
  stream.wait();
}

}  // namespace

double measure_tensor_roof(TensorInput input, Machine& machine) {
  const BlasLt blas;
  if (!blas) return 0;
  const Product product(blas, input == TensorInput::kBf16 ? CUDA_R_16BF : CUDA_R_8F_E4M3);
  if (!product) return 0;
  gpu::Stream& stream = machine.stream();
  constexpr auto kElements = static_cast<int64_t>(kSide * kSide);
  const gpu::DeviceBuffer in = machine.memory().allocate(gpu::ArenaKind::kWorkspace, 2 * kElements, stream);
  const gpu::DeviceBuffer out = machine.memory().allocate(gpu::ArenaKind::kWorkspace, 2 * kElements, stream);
  const gpu::DeviceBuffer workspace =
      machine.memory().allocate(gpu::ArenaKind::kWorkspace, static_cast<int64_t>(kWorkspaceBytes), stream);
  fill_randomly(in, input, stream);
  gpu::Event begin(gpu::Event::Timing::kTimed), end(gpu::Event::Timing::kTimed);
  double best_s = 0;
  constexpr int kRuns = 12, kProducts = 4;
  for (int i = 0; i < kRuns; ++i) {
    begin.record(stream);
    for (int j = 0; j < kProducts; ++j)
      if (!product.run(in.data(), out.data(), workspace.data(), stream)) return 0;
    end.record(stream);
    stream.wait();
    const double seconds = gpu::milliseconds_between(begin, end) / 1e3 / kProducts;
    best_s = i == 0 ? seconds : std::min(best_s, seconds);
  }
  return 2.0 * kSide * kSide * kSide / best_s;
}

}  // namespace cheetah::lab
