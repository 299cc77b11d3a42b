// SPDX-License-Identifier: MIT
// blocks_cuda_bench [TYPE ...]: every variant of the four products of a layer of random:llama-8b with W in
// blocks, and of experts as gpt-oss-20b has them. W is random and never in the cache; medians of five runs of
// ten launches. A line: microseconds of each product, those of 32 layers, and the rate at which W as stored
// was read.
#include <algorithm>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include "base/error.h"
#include "gpu/memory.h"
#include "kernels/gemm/gemm_case.h"
#include "kernels/gemm/gemm_cuda.h"

namespace cheetah::gpu {
namespace {

struct Product {
  int64_t n, k;
  bool gated, adds;
};
constexpr Product kLayer[] = {{6144, 4096, false, false}, {4096, 4096, false, true},
    {28672, 4096, true, false}, {4096, 14336, false, true}};
constexpr int64_t kMostRows = 256, kMostN = 28672, kMostK = 14336;

class Bench {
 public:
  void type(DType dtype) {
    fill(dtype);
    std::printf("%-6s %4s %-16s %7s %7s %7s %7s %9s %6s\n", std::string(name_of(dtype)).c_str(), "m",
        "variant", "qkv", "o", "gate up", "down", "32 layers", "GB/s");
    for (const int64_t m : {1, 2, 4, 8, 16, 32, 64, 128, 256})
      for (const auto& variant : gemm_variants<Bf16, Bf16>().subspan(1)) line(dtype, m, variant);
    std::printf(
        "%-6s %4s %-22s %9s %9s %6s\n", "", "m", "32 experts, 4 a token", "5760x2880", "2880x2880", "GB/s");
    for (const int64_t m : {1, 8, 64, 512}) experts(dtype, m);
  }

 private:
  // Blocks of one random row after another, from an even place in memory on.
  void fill(DType dtype) {
    const int64_t bytes = row_bytes(dtype, kMostK);
    constexpr int64_t kDistinct = 64;
    std::vector<std::byte> rows(static_cast<size_t>(kDistinct * bytes));
    Philox random(1);
    for (int64_t i = 0; i < kDistinct; ++i) fill_row(dtype, random, rows.data() + i * bytes, kMostK);
    const auto size = static_cast<int64_t>(rows.size());
    for (int64_t at = 0; at + size <= w_.size(); at += size)
      copy_to_device(w_.data() + at, rows.data(), size, stream_);
    stream_.wait();
  }
  void line(DType dtype, int64_t m, const GemmVariant<Bf16, Bf16>& variant) {
    double us[4], sum = 0;
    int64_t bytes = 0;
    for (int i = 0; i < 4; ++i) {
      const Product& p = kLayer[i];
      const int64_t outputs = p.gated ? p.n / 2 : p.n, w_bytes = p.n * row_bytes(dtype, p.k),
                    places = std::max<int64_t>(1, w_.size() / w_bytes);
      GemmArgs<Bf16, Bf16> args{.x = x_.as<Bf16>(),
          .x_stride = p.k,
          .m = m,
          .w = {.dtype = dtype, .rows = p.n, .cols = p.k, .data = w_.data()},
          .gated = p.gated,
          .residual = p.adds ? y_.as<Bf16>() : nullptr,
          .residual_stride = outputs,
          .y = y_.as<Bf16>(),
          .y_stride = outputs,
          .widened = wide_.as<Bf16>(),
          .widened_numbers = p.n * p.k};
      if (!variant.fits(args, device_)) return;
      int64_t turn = 0;
      us[i] = median_us([&] {
        args.w.data = w_.data() + turn++ % places * w_bytes / 16 * 16;
        variant.run(args, stream_);
      });
      sum += us[i];
      bytes += w_bytes;
    }
    std::printf("%6s %4ld %-16s %7.1f %7.1f %7.1f %7.1f %9.0f %6.0f\n", "", static_cast<long>(m),
        variant.name, us[0], us[1], us[2], us[3], 32 * sum, static_cast<double>(bytes) / sum * 1e-3);
  }
  // Token i goes to four experts from i * 5 on: each has as many rows as another.
  void experts(DType dtype, int64_t m) {
    constexpr int64_t kCount = 32, kEach = 4, kCols = 2880;
    if (kCols % traits_of(dtype).block_elements != 0) return;
    std::vector<int32_t> counts(kCount), offsets = {0};
    for (int64_t i = 0; i < m * kEach; ++i)
      ++counts[static_cast<size_t>((i / kEach * 5 + i % kEach) % kCount)];
    int64_t used = 0;
    for (const int32_t count : counts) {
      offsets.push_back(offsets.back() + count);
      used += count > 0;
    }
    const DeviceBuffer device_offsets = upload(offsets);
    for (const auto& variant : grouped_gemm_variants<Bf16, Bf16>()) {
      double us[2] = {}, bytes = 0;
      for (const int64_t i : {0, 1}) {
        const int64_t n = i == 0 ? 5760 : 2880, w_bytes = (n * row_bytes(dtype, kCols) + 15) / 16 * 16;
        std::vector<WeightMatrix> matrices;
        std::vector<const std::byte*> data;
        for (int64_t e = 0; e < kCount; ++e) {
          data.push_back(w_.data() + e * w_bytes);
          matrices.push_back({.dtype = dtype, .rows = n, .cols = kCols, .data = data.back()});
        }
        const std::vector<TensorMap> maps = grouped_weight_maps(matrices, device_);
        const DeviceBuffer device_data = upload(data), device_maps = upload(maps);
        const GroupedGemmArgs<Bf16, Bf16> args{.x = x_.as<Bf16>(),
            .x_stride = kCols,
            .rows = m * kEach,
            .w = {.dtype = dtype,
                .count = kCount,
                .rows = n,
                .cols = kCols,
                .data = device_data.as<const std::byte*>(),
                .maps = maps.empty() ? nullptr : device_maps.as<TensorMap>()},
            .offsets = device_offsets.as<int32_t>(),
            .y = y_.as<Bf16>(),
            .y_stride = n};
        if (!variant.fits(args, device_)) {
          us[0] = 0;
          break;
        }
        us[i] = median_us([&] { variant.run(args, stream_); });
        bytes += static_cast<double>(used * w_bytes);
      }
      if (us[0] > 0)
        std::printf("%6s %4ld %-22s %9.1f %9.1f %6.0f\n", "", static_cast<long>(m), variant.name, us[0],
            us[1], bytes / (us[0] + us[1]) * 1e-3);
    }
  }
  template <class Item>
  DeviceBuffer upload(const std::vector<Item>& items) {
    const auto bytes = static_cast<int64_t>(items.size() * sizeof(Item));
    DeviceBuffer buffer = memory_.allocate(ArenaKind::kWorkspace, std::max<int64_t>(bytes, 16), stream_);
    copy_to_device(buffer.data(), items.data(), bytes, stream_);
    stream_.wait();
    return buffer;
  }
  double median_us(const std::function<void()>& work) {
    constexpr int kLaunches = 10, kRuns = 5;
    double runs[kRuns];
    work();
    for (double& run : runs) {
      Event begin(Event::Timing::kTimed), end(Event::Timing::kTimed);
      begin.record(stream_);
      for (int i = 0; i < kLaunches; ++i) work();
      end.record(stream_);
      end.wait();
      run = milliseconds_between(begin, end) * 1e3 / kLaunches;
    }
    std::ranges::sort(runs);
    return runs[kRuns / 2];
  }
  DeviceBuffer random_numbers(int64_t count) {
    std::vector<uint16_t> values(static_cast<size_t>(count));
    Philox random(2);
    for (uint16_t& value : values) value = f32_to_bf16(random.next_normal());
    DeviceBuffer buffer = memory_.allocate(ArenaKind::kWorkspace, count * 2, stream_);
    copy_to_device(buffer.data(), values.data(), count * 2, stream_);
    stream_.wait();
    return buffer;
  }

  DeviceInfo device_ = query_device();
  DeviceMemory memory_{device_};
  Stream stream_{device_};
  DeviceBuffer w_ = memory_.allocate(ArenaKind::kWorkspace, int64_t{1} << 30, stream_),
               y_ = memory_.allocate(ArenaKind::kWorkspace, 2 * kMostRows * kMostN * 2, stream_),
               wide_ = memory_.allocate(ArenaKind::kWorkspace, kMostN * 4096 * 2, stream_),
               x_ = random_numbers(2 * kMostRows * kMostK);
};

void run(const std::vector<std::string>& names) {
  if (!cuda_available()) {
    std::printf("skipped: %s\n", cuda_available().reason.c_str());
    return;
  }
  Bench bench;
  for (const DType dtype :
      {DType::kQ4_K, DType::kQ8_0, DType::kQ4_0, DType::kQ5_K, DType::kQ6_K, DType::kMXFP4})
    if (names.empty() || std::ranges::find(names, name_of(dtype)) != names.end()) bench.type(dtype);
}

}  // namespace
}  // namespace cheetah::gpu

int main(int argc, char** argv) {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  cheetah::gpu::run({argv + 1, argv + argc});
}
