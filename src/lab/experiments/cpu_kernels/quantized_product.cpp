// SPDX-License-Identifier: MIT
// y = W x with W in F32, BF16, 8 and 4 bits: fewer bytes per weight, and integer dot products.
#include <cstring>

#include "kernels/gemm/gemm.h"
#include "kernels/quant/quant.h"
#include "lab/array_trial.h"

namespace cheetah::lab {
namespace {

constexpr int64_t kDistinct = 31;

struct Format {
  const char* name;
  DType dtype;
  double absolute;  // what an output may be off
};

// Weights and inputs are below 1, sums of 2048 products have deviation 15. Rounding moves a product by at
// most half a step of the format, and the sum by six times the deviation of as many such errors.
constexpr Format kFormats[] = {{"f32", DType::kF32, 1e-3}, {"bf16", DType::kBF16, 0.2},
    {"q8_0", DType::kQ8_0, 1}, {"q4_0", DType::kQ4_0, 12}, {"q4_k", DType::kQ4_K, 12}};

std::unique_ptr<Trial> make(const Setup& setup) {
  const int64_t rows = setup.dim(0), cols = setup.dim(1);
  auto trial = std::make_unique<ArrayTrial>(setup);
  const auto x = trial->input<float>("x", cols);
  // Rows repeat, so that packing them does not take longer than the experiment.
  const auto w = trial->input_from<float>("w", rows * cols, [=](std::span<float> to, uint64_t seed) {
    for (size_t i = 0; i < to.size(); ++i)
      to[i] = static_cast<float>(2 * uniform_at(seed, i % static_cast<size_t>(kDistinct * cols)) - 1);
  });
  std::vector<Array<std::byte>> stored;
  for (const Format& format : kFormats) {
    const int64_t bytes = row_bytes(format.dtype, cols);
    stored.push_back(trial->derived<std::byte>(
        format.name, rows * bytes, [=](std::span<std::byte> to, const HostArrays& from) {
          for (int64_t row = 0; row < rows; ++row)
            if (row < kDistinct)
              quantize_row(format.dtype, from[w].data() + row * cols, to.data() + row * bytes, cols);
            else
              std::memcpy(
                  to.data() + row * bytes, to.data() + (row - kDistinct) * bytes, static_cast<size_t>(bytes));
        }));
  }
  const auto y = trial->output<float>("y", rows);
  const auto args = [=](DType dtype, const std::byte* weights, const float* in, float* out) {
    return GemmArgs{.x = in,
        .x_stride = cols,
        .m = 1,
        .w = {.dtype = dtype, .rows = rows, .cols = cols, .data = weights},
        .y = out,
        .y_stride = rows};
  };
  trial->reference([=](const HostArrays& host) {
    gemm_reference(args(
        DType::kF32, reinterpret_cast<const std::byte*>(host[w].data()), host[x].data(), host[y].data()));
  });
  for (size_t i = 0; i < std::size(kFormats); ++i) {
    const Format& format = kFormats[i];
    const Array<std::byte> weights = stored[i];
    trial->set_cost(format.name, {.flops = 2.0 * static_cast<double>(rows * cols),
                                     .bytes = static_cast<double>(weights.count + 4 * (rows + cols)),
                                     .roof = Roof::kDram});
    trial->set_tolerance(format.name, {.absolute = format.absolute});
    trial->variant(format.name, [=](const Launch& at) {
      gemm(args(format.dtype, at[weights], at[x], at[y]),
          {.pool = at.threads(), .precision = Precision::kNative});
    });
  }
  return trial;
}

const Registered kQuantizedProduct({
    .id = "cpu/quantized-product",
    .title = "Quantized weights",
    .question = "Does a product of one token follow the bytes of its weights?",
    .mechanism = "Each weight is used once, so time is bytes over bandwidth: half the bytes, half the time, "
                 "as long as "
                 "unpacking keeps up. Integer dot products on quantized inputs do.",
    .claim = {.text = "Halving the precision halves the bytes and doubles the arithmetic intensity."},
    .domain = Domain::kCpu,
    .variants = {{"f32", "4 bytes per weight"}, {"bf16", "2 bytes per weight"},
        {"q8_0", "8.5 bits a weight, integer dot products"},
        {"q4_0", "4.5 bits a weight, integer dot products"}, {"q4_k", "4.5 bits a weight in blocks of 256"}},
    .sizes = {{"2048x2048", {2048, 2048}}, {"8192x2048", {8192, 2048}}},
    .quick = {{"2048x2048", {2048, 2048}}},
    .make = make,
});

}  // namespace
}  // namespace cheetah::lab
