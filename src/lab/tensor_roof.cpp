// SPDX-License-Identifier: MIT
#include "lab/tensor_roof.h"

#include <algorithm>
#include <vector>

#include "base/random.h"
#include "kernels/gemm/cuda/cublaslt.h"

namespace cheetah::lab {
namespace {

constexpr int64_t kSide = 8192, kWorkspaceBytes = 32 << 20;

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
  gpu::Stream& stream = machine.stream();
  constexpr int64_t kElements = kSide * kSide;
  const gpu::DeviceBuffer in = machine.memory().allocate(gpu::ArenaKind::kWorkspace, 2 * kElements, stream);
  const gpu::DeviceBuffer out = machine.memory().allocate(gpu::ArenaKind::kWorkspace, 2 * kElements, stream);
  const gpu::DeviceBuffer workspace =
      machine.memory().allocate(gpu::ArenaKind::kWorkspace, kWorkspaceBytes, stream);
  const gpu::HopperGemmArgs product{.dtype = input == TensorInput::kBf16 ? DType::kBF16 : DType::kF8E4M3,
      .x = in.data(),
      .x_stride = kSide,
      .m = kSide,
      .w = in.data(),
      .n = kSide,
      .k = kSide,
      .y = out.data(),
      .y_stride = kSide,
      .workspace = workspace.data(),
      .workspace_bytes = kWorkspaceBytes};
  if (!gpu::cublaslt_fits(product)) return 0;
  fill_randomly(in, input, stream);
  gpu::Event begin(gpu::Event::Timing::kTimed), end(gpu::Event::Timing::kTimed);
  double best_s = 0;
  constexpr int kRuns = 12, kProducts = 4;
  for (int i = 0; i < kRuns; ++i) {
    begin.record(stream);
    for (int j = 0; j < kProducts; ++j) gpu::cublaslt_gemm(product, stream);
    end.record(stream);
    stream.wait();
    const double seconds = gpu::milliseconds_between(begin, end) / 1e3 / kProducts;
    best_s = i == 0 ? seconds : std::min(best_s, seconds);
  }
  return 2.0 * static_cast<double>(kElements) * kSide / best_s;
}

}  // namespace cheetah::lab
