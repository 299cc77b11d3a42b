// SPDX-License-Identifier: MIT
// gemm_bench [--threads N] [--dtype NAME] [--m N] [--rows N --cols N] [--seconds S]: GFLOP/s, GB/s and the
// share of this machine's measured peaks for the shapes models have. Weights rotate through more memory than
// the caches hold, as a decode step's do. Each result is checked once against the error bound.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/random.h"
#include "hwy/highway.h"
#include "kernels/gemm/gemm_case.h"

namespace cheetah {
namespace {

constexpr int64_t kRotationBytes = int64_t{160} << 20;  // five times the L3 of the machine in NOTES.md
constexpr std::pair<int64_t, int64_t> kShapes[] = {
    {768, 768}, {2048, 768}, {768, 2048}, {32000, 768}, {4096, 4096}, {14336, 4096}};

struct Options {
  int threads = 0;
  double seconds = 0.15;
  std::string dtype;
  int64_t m = 0, rows = 0, cols = 0;
};

struct Peaks {
  double gbytes = 0;  // read bandwidth per second
  double gflops = 0;  // F32 FMA
};

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// The least time of one call, over at least three calls and `seconds`.
template <class Call>
double least_seconds(double seconds, Call call) {
  double least = 1e9;
  const double start = now();
  for (int i = 0; i < 3 || now() - start < seconds; ++i) {
    const double before = now();
    call();
    least = std::min(least, now() - before);
  }
  return least;
}

double sum_of(const float* data, int64_t count) {
  float lanes[64] = {};
  for (int64_t i = 0; i < count; i += 64)
    for (int64_t l = 0; l < 64; ++l) lanes[l] += data[i + l];
  double sum = 0;
  for (const float lane : lanes) sum += lane;
  return sum;
}

// Twelve independent chains of 16-lane FMAs: enough to cover the latency of two units.
constexpr int64_t kChainFlops = 12 * 16 * 2;
__attribute__((target("avx512f"))) void fma_chains(int64_t steps) {
  for (int64_t i = 0; i < steps; ++i)
    asm volatile(
        "vfmadd231ps %%zmm12, %%zmm12, %%zmm0\n vfmadd231ps %%zmm12, %%zmm12, %%zmm1\n"
        "vfmadd231ps %%zmm12, %%zmm12, %%zmm2\n vfmadd231ps %%zmm12, %%zmm12, %%zmm3\n"
        "vfmadd231ps %%zmm12, %%zmm12, %%zmm4\n vfmadd231ps %%zmm12, %%zmm12, %%zmm5\n"
        "vfmadd231ps %%zmm12, %%zmm12, %%zmm6\n vfmadd231ps %%zmm12, %%zmm12, %%zmm7\n"
        "vfmadd231ps %%zmm12, %%zmm12, %%zmm8\n vfmadd231ps %%zmm12, %%zmm12, %%zmm9\n"
        "vfmadd231ps %%zmm12, %%zmm12, %%zmm10\n vfmadd231ps %%zmm12, %%zmm12, %%zmm11\n" ::
            : "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10",
        "xmm11");
}

Peaks measure_peaks(ThreadPool& pool, double seconds) {
  Buffer buffer(kRotationBytes);
  const int64_t count = kRotationBytes / 4, grain = 1 << 16;
  volatile double sink = 0;
  const double read = least_seconds(3 * seconds, [&] {
    pool.parallel_for(count, grain,
        [&](int64_t begin, int64_t end, int) { sink = sum_of(buffer.as<float>() + begin, end - begin); });
  });
  const int64_t steps = 1 << 17;
  const double multiply = least_seconds(seconds, [&] { pool.run([&](int) { fma_chains(steps); }); });
  const double flops = static_cast<double>(kChainFlops * steps) * pool.num_threads();
  return {.gbytes = static_cast<double>(kRotationBytes) / read / 1e9, .gflops = flops / multiply / 1e9};
}

GemmCase bench_case(DType dtype, int64_t m, int64_t rows, int64_t cols, int64_t copies) {
  GemmCase c = make_gemm_case(dtype, m, rows, cols, 1);
  const int64_t bytes = rows * row_bytes(dtype, cols);
  Buffer repeated(bytes * copies);
  for (int64_t i = 0; i < copies; ++i)
    std::memcpy(repeated.data() + i * bytes, c.weights.data(), static_cast<size_t>(bytes));
  c.weights = std::move(repeated);
  c.args.w.data = c.weights.data();
  return c;
}

bool within_bounds(GemmCase& c, const CpuContext& context) {
  GemmArgs args = c.args;
  args.m = std::min<int64_t>(args.m, 5);
  args.w.rows = std::min<int64_t>(args.w.rows, 40);
  gemm(args, context);
  std::vector<float> right(c.y.size());
  const std::vector<double> bounds = gemm_error_bounds(args, context.precision);
  const float* y = args.y;
  args.y = right.data();
  gemm_reference(args);
  for (int64_t i = 0; i < args.m; ++i)
    for (int64_t j = 0; j < args.w.rows; ++j) {
      const int64_t at = i * args.y_stride + j;
      if (!(std::fabs(y[at] - right[static_cast<size_t>(at)]) <=
              bounds[static_cast<size_t>(i * args.w.rows + j)]))
        return false;
    }
  return true;
}

void measure(DType dtype, int64_t m, int64_t rows, int64_t cols, ThreadPool& pool, const Peaks& peaks,
    const Options& options) {
  const int64_t bytes = rows * row_bytes(dtype, cols);
  const int64_t copies = m <= 8 ? std::max<int64_t>(1, kRotationBytes / bytes) : 1;
  GemmCase c = bench_case(dtype, m, rows, cols, copies);
  for (const Precision precision : {Precision::kExact, Precision::kNative}) {
    const CpuContext context{pool, precision};
    const bool right = within_bounds(c, context);
    GemmArgs args = c.args;
    int64_t call = 0;
    const double seconds = least_seconds(options.seconds, [&] {
      args.w.data = c.weights.data() + call++ % copies * bytes;
      gemm(args, context);
    });
    const Cost cost = gemm_cost(args);
    const double gflops = cost.flops / seconds / 1e9, gbytes = cost.bytes / seconds / 1e9;
    std::printf("%-5s %-6s %6lld x %-5lld m %-4lld %9.1f us %8.1f GFLOP/s %3.0f%% %7.2f GB/s %3.0f%% %s\n",
        std::string(name_of(dtype)).c_str(), precision == Precision::kExact ? "exact" : "native",
        static_cast<long long>(rows), static_cast<long long>(cols), static_cast<long long>(m), seconds * 1e6,
        gflops, 100 * gflops / peaks.gflops, gbytes, 100 * gbytes / peaks.gbytes, right ? "" : "WRONG");
    std::fflush(stdout);
  }
}

Options parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string_view name = argv[i];
    const char* value = argv[i + 1];
    if (name == "--threads") options.threads = std::atoi(value);
    if (name == "--seconds") options.seconds = std::atof(value);
    if (name == "--dtype") options.dtype = value;
    if (name == "--m") options.m = std::atoll(value);
    if (name == "--rows") options.rows = std::atoll(value);
    if (name == "--cols") options.cols = std::atoll(value);
  }
  return options;
}

void run(const Options& options) {
  ThreadPool pool({.num_threads = options.threads});
  const Peaks peaks = measure_peaks(pool, options.seconds);
  std::printf(
      "%d threads, read %.1f GB/s, F32 FMA %.0f GFLOP/s\n", pool.num_threads(), peaks.gbytes, peaks.gflops);
  std::vector<std::pair<int64_t, int64_t>> shapes(std::begin(kShapes), std::end(kShapes));
  if (options.rows && options.cols) shapes = {{options.rows, options.cols}};
  std::vector<int64_t> heights = {1, 8, 64, 512};
  if (options.m) heights = {options.m};
  for (const DType dtype :
      {DType::kF32, DType::kF16, DType::kBF16, DType::kQ8_0, DType::kQ4_0, DType::kQ4_K}) {
    if (!options.dtype.empty() && dtype != dtype_from_name(options.dtype)) continue;
    for (const auto& [rows, cols] : shapes)
      for (const int64_t m : heights) measure(dtype, m, rows, cols, pool, peaks, options);
  }
}

}  // namespace
}  // namespace cheetah

int main(int argc, char** argv) { cheetah::run(cheetah::parse(argc, argv)); }
