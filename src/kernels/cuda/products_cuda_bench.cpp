// SPDX-License-Identifier: MIT
#include "kernels/cuda/products_cuda_bench.h"

#include <cmath>
#include <cstdio>
#include <string>
#include <string_view>

#include "gpu/ceilings.h"
#include "kernels/gemm/cuda/cublaslt.h"
#include "kernels/gemm/gemm_cuda.h"
#include "tensor/float16.h"

namespace cheetah::gpu {
namespace {

constexpr int64_t kHidden = 4096, kInner = 14336, kQkv = 6144, kVocab = 128256;

double flops_of(int64_t m, int64_t n, int64_t k) {
  return 2.0 * static_cast<double>(m * n) * static_cast<double>(k);
}

// The largest difference of two products, in parts of the largest number.
double difference(DeviceBench& bench, const DeviceBuffer& a, const DeviceBuffer& b, int64_t count) {
  std::vector<uint16_t> first(static_cast<size_t>(count)), second(first.size());
  copy_to_host(first.data(), a.data(), count * 2, bench.stream);
  copy_to_host(second.data(), b.data(), count * 2, bench.stream);
  bench.stream.wait();
  double most = 0, largest = 0;
  for (size_t i = 0; i < first.size(); ++i) {
    most = std::max(most, std::abs(double{bf16_to_f32(first[i])} - bf16_to_f32(second[i])));
    largest = std::max(largest, std::abs(double{bf16_to_f32(second[i])}));
  }
  return most / largest;
}

class BesideLibrary {
 public:
  explicit BesideLibrary(DeviceBench& bench) : bench_(bench) {}

  void shape(int64_t m, int64_t n, int64_t k) {
    product(DType::kBF16, m, n, k);
    product(DType::kF8E4M3, m, n, k);
  }

 private:
  void product(DType dtype, int64_t m, int64_t n, int64_t k) {
    const bool is_fp8 = dtype == DType::kF8E4M3;
    const int64_t size = is_fp8 ? 1 : 2;
    const DeviceBuffer x = bench_.random_numbers(m * k * size, is_fp8),
                       w = bench_.random_numbers(n * k * size, is_fp8), y = bench_.zeros(m * n * 2),
                       y_library = bench_.zeros(m * n * 2),
                       scales = bench_.upload(std::vector(static_cast<size_t>(std::max(m, n)), 0.75f));
    HopperGemmArgs ours{.dtype = dtype,
        .x = x.data(),
        .x_stride = k,
        .m = m,
        .w = w.data(),
        .n = n,
        .k = k,
        .x_scales = is_fp8 ? scales.as<float>() : nullptr,
        .w_scales = is_fp8 ? scales.as<float>() : nullptr,
        .y = y.data(),
        .y_stride = n};
    HopperGemmArgs library = ours;
    library.y = y_library.data();
    library.workspace = workspace_.data();
    library.workspace_bytes = workspace_.size();
    std::printf("%5ld x %5ld x %5ld %-8s", static_cast<long>(m), static_cast<long>(n), static_cast<long>(k),
        is_fp8 ? "FP8" : "BF16");
    if (!hopper_gemm_fits(ours, bench_.device) || !cublaslt_fits(library))
      return void(std::printf(" needs a Hopper GPU and cuBLASLt\n"));
    const std::function<void()> both[] = {
        [&] { hopper_tile_gemm(ours, bench_.stream); }, [&] { cublaslt_gemm(library, bench_.stream); }};
    const std::vector<double> us = bench_.medians_us(both);
    const double flops = flops_of(m, n, k);
    std::printf(" %9.1f us %6.0f TFLOP/s, cuBLASLt %6.0f: %.3f of it, differs by %.1g\n", us[0],
        flops / us[0] * 1e-6, flops / us[1] * 1e-6, us[1] / us[0], difference(bench_, y, y_library, m * n));
  }

  DeviceBench& bench_;
  DeviceBuffer workspace_ = bench_.zeros(int64_t{64} << 20);
};

// W never comes from the cache: as many copies of it as fit a gigabyte take turns.
class Decode {
 public:
  explicit Decode(DeviceBench& bench)
      : bench_(bench), read_rate_(measure_read_bandwidth(bench.memory, bench.stream)) {
    std::printf("read bandwidth %.0f GB/s\n", read_rate_ * 1e-9);
  }
  void shape(DType dtype, int64_t m, int64_t n, int64_t k) {
    const int64_t bytes = n * row_bytes(dtype, k), copies = std::max<int64_t>(1, w_.size() / bytes);
    int64_t turn = 0;
    const double us = bench_.median_us([&] {
      gemm<Bf16, Bf16>(
          {.x = x_.as<Bf16>(),
              .x_stride = k,
              .m = m,
              .w = {.dtype = dtype, .rows = n, .cols = k, .data = w_.data() + turn++ % copies * bytes},
              .y = y_.as<Bf16>(),
              .y_stride = n,
              .narrowed = narrow_.data(),
              .narrowed_bytes = narrow_.size()},
          bench_.stream);
    });
    const double rate = static_cast<double>(bytes) / us * 1e6;
    std::printf("%5ld x %6ld x %5ld %-6s %8.1f us %6.0f GB/s of W, %.3f of reading\n", static_cast<long>(m),
        static_cast<long>(n), static_cast<long>(k), dtype == DType::kBF16 ? "BF16" : "FP8", us, rate * 1e-9,
        rate / read_rate_);
  }

 private:
  static constexpr int64_t kMostRows = 64;
  DeviceBench& bench_;
  double read_rate_;
  DeviceBuffer w_ = bench_.random_numbers(kVocab * kHidden * 2),
               x_ = bench_.random_numbers(kMostRows * kInner * 2), y_ = bench_.zeros(kMostRows * kVocab * 2),
               narrow_ = bench_.zeros(narrowed_x_bytes(kMostRows, kInner));
};

void layer(DeviceBench& bench, int64_t m) {
  const DeviceBuffer w = bench.random_numbers(2 * kInner * kHidden * 2),
                     x = bench.random_numbers(m * kInner * 2), y = bench.zeros(m * kInner * 2);
  const auto product = [&](const char* name, int64_t n, int64_t k, bool gated, bool adds) {
    const int64_t outputs = gated ? n / 2 : n;
    const double us = bench.median_us([&] {
      gemm<Bf16, Bf16>({.x = x.as<Bf16>(),
                           .x_stride = k,
                           .m = m,
                           .w = {.dtype = DType::kBF16, .rows = n, .cols = k, .data = w.data()},
                           .gated = gated,
                           .residual = adds ? y.as<Bf16>() : nullptr,
                           .residual_stride = outputs,
                           .y = y.as<Bf16>(),
                           .y_stride = outputs},
          bench.stream);
    });
    std::printf("%5ld x %5ld x %5ld %-14s %9.1f us %8.0f GB/s of W %7.0f TFLOP/s\n", static_cast<long>(m),
        static_cast<long>(n), static_cast<long>(k), name, us, static_cast<double>(n * k * 2) / us * 1e-3,
        flops_of(m, n, k) / us * 1e-6);
  };
  product("qkv", kQkv, kHidden, false, false);
  product("o, added", kHidden, kHidden, false, true);
  product("gate up, gated", 2 * kInner, kHidden, true, false);
  product("down, added", kHidden, kInner, false, true);
}

// The fastest variant of each shape, as gemm/cuda/tuned_h200.h has it: one line for as many rows of x as it holds.
class Tuner {
 public:
  explicit Tuner(DeviceBench& bench) : bench_(bench) {}

  void shape(DType dtype, int64_t n, int64_t k) {
    const int64_t bytes = n * row_bytes(dtype, k), copies = std::max<int64_t>(1, w_.size() / bytes);
    std::string_view held;
    int64_t most = 0;
    for (const int64_t m : {1, 2, 4, 8, 16, 32, 48, 64, 96, 128, 192, 256, 512, 1024, 2048}) {
      const std::string_view best = fastest(dtype, n, k, m, bytes, copies);
      if (!held.empty() && best != held) print_line(dtype, n, k, most, held);
      held = best;
      most = m;
    }
    print_line(dtype, n, k, most, held);
  }

 private:
  static void print_line(DType dtype, int64_t n, int64_t k, int64_t most, std::string_view variant) {
    std::printf("    Tuned{DType::k%s, %ld, %ld, %ld, \"%s\"},\n",
        std::string(dtype == DType::kF8E4M3 ? "F8E4M3" : name_of(dtype)).c_str(), static_cast<long>(n),
        static_cast<long>(k), static_cast<long>(most), std::string(variant).c_str());
  }
  std::string_view fastest(DType dtype, int64_t n, int64_t k, int64_t m, int64_t bytes, int64_t copies) {
    std::string_view best;
    double best_us = 0;
    int64_t turn = 0;
    GemmArgs<Bf16, Bf16> args{.x = x_.as<Bf16>(),
        .x_stride = k,
        .m = m,
        .w = {.dtype = dtype, .rows = n, .cols = k, .data = w_.data()},
        .y = y_.as<Bf16>(),
        .y_stride = n,
        .widened = dtype == DType::kBF16 ? nullptr : wide_.as<Bf16>(),
        .widened_numbers = dtype == DType::kBF16 ? 0 : n * k,
        .narrowed = narrow_.data(),
        .narrowed_bytes = narrow_.size()};
    for (const auto& variant : gemm_variants<Bf16, Bf16>().subspan(1)) {
      if (!variant.fits(args, bench_.device)) continue;
      // Our own stays where the library is not clearly faster: it is on every machine.
      const double handicap = std::string_view(variant.name).starts_with("cublaslt") ? 1.03 : 1;
      const double us = handicap * bench_.median_us([&] {
        args.w.data = w_.data() + turn++ % copies * bytes / 16 * 16;  // never from the cache
        variant.run(args, bench_.stream);
      });
      if (best.empty() || us < best_us) {
        best = variant.name;
        best_us = us;
      }
    }
    return best;
  }

  static constexpr int64_t kMostRows = 2048, kMostN = 28672, kMostK = 14336;
  DeviceBench& bench_;
  DeviceBuffer w_ = bench_.random_numbers(int64_t{1} << 30),
               x_ = bench_.random_numbers(kMostRows * kMostK * 2), y_ = bench_.zeros(kMostRows * kMostN * 2),
               wide_ = bench_.zeros(kMostN * 4096 * 2),
               narrow_ = bench_.zeros(narrowed_x_bytes(kMostRows, kMostK));
};

}  // namespace

void bench_products(DeviceBench& bench) {
  {
    BesideLibrary beside(bench);
    beside.shape(4096, 4096, 4096);
    beside.shape(8192, 8192, 8192);
    beside.shape(2048, 28672, 4096);
    beside.shape(8192, kQkv, kHidden);
    beside.shape(8192, kHidden, kInner);
    beside.shape(512, kHidden, kInner);
    beside.shape(128, 2 * kInner, kHidden);
  }
  {
    Decode decode(bench);
    for (const DType dtype : {DType::kBF16, DType::kF8E4M3})
      for (const int64_t m : {1, 8, 64}) {
        decode.shape(dtype, m, kHidden, kHidden);
        decode.shape(dtype, m, kQkv, kHidden);
        decode.shape(dtype, m, kHidden, kInner);
        decode.shape(dtype, m, 2 * kInner, kHidden);
        decode.shape(dtype, m, kVocab, kHidden);
      }
  }
  for (const int64_t m : {1, 16, 64, 128, 256, 8192}) layer(bench, m);
}

// All of gemm/cuda/tuned_h200.h, on standard output.
void tune_products(DeviceBench& bench) {
  std::printf(
      "// SPDX-License-Identifier: MIT\n#pragma once\n"
      "// Written by `kernels_cuda_bench tune` on an %s; not edited by hand. Of all variants that fit, cuBLASLt's\n"
      "// among them, the fastest for each number of rows of x; cuBLASLt's where it is more than 3 %% ahead of ours. W "
      "comes\n// from memory, not from a cache.\n"
      "#include <array>\n\n#include \"kernels/gemm/cuda/tuned.h\"\n\nnamespace cheetah::gpu {\n\n"
      "inline constexpr std::array kTunedH200 = {\n",
      bench.device.name.c_str());
  Tuner tuner(bench);
  for (const DType dtype :
      {DType::kBF16, DType::kF8E4M3, DType::kQ8_0, DType::kQ4_0, DType::kQ4_K, DType::kQ6_K}) {
    tuner.shape(dtype, kQkv, kHidden);
    tuner.shape(dtype, kHidden, kHidden);
    tuner.shape(dtype, 2 * kInner, kHidden);
    tuner.shape(dtype, kHidden, kInner);
  }
  std::printf("};\n\n}  // namespace cheetah::gpu\n");
}

}  // namespace cheetah::gpu
