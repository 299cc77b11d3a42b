// SPDX-License-Identifier: MIT
// Arrays of structures against structures of arrays: one field wanted, and all of them.
#include "lab/experiments/device_trial.cuh"

namespace cheetah::lab {
namespace {

constexpr int kThreads = 256;
constexpr int kFields = 8;  // 32 bytes a structure
constexpr int kLane = 32;   // structures a group of the mixed layout holds

enum class Layout { kStructures, kArrays, kGroups };

// Where field f of structure i lies.
template <Layout kLayout>
__host__ __device__ int64_t place(int64_t i, int f, int64_t n) {
  if constexpr (kLayout == Layout::kStructures) return i * kFields + f;
  if constexpr (kLayout == Layout::kArrays) return f * n + i;
  return (i / kLane * kFields + f) * kLane + i % kLane;
}

// The same numbers in every layout: a number's value depends on its structure and field alone.
template <Layout kLayout>
struct Fields {
  int64_t n;
  __device__ float operator()(uint64_t seed, int64_t at) const {
    int64_t i = at / kFields, f = at % kFields;
    if constexpr (kLayout == Layout::kArrays) {
      f = at / n;
      i = at % n;
    } else if constexpr (kLayout == Layout::kGroups) {
      f = at / kLane % kFields;
      i = at / (kLane * kFields) * kLane + at % kLane;
    }
    return uniform(seed, static_cast<uint64_t>(i * kFields + f));
  }
};

// y[i] = 2 * field 3 of structure i
template <Layout kLayout>
__global__ __launch_bounds__(kThreads) void one_field(const float* x, float* y, int64_t n) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i < n) y[i] = 2 * x[place<kLayout>(i, 3, n)];
}

__device__ float energy(const float (&f)[kFields]) {
  return f[0] * f[4] + f[1] * f[5] + f[2] * f[6] + f[3] * f[7];
}

// y[i] = f0 f4 + f1 f5 + f2 f6 + f3 f7
template <Layout kLayout>
__global__ __launch_bounds__(kThreads) void all_fields(const float* x, float* y, int64_t n) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= n) return;
  float fields[kFields];
#pragma unroll
  for (int f = 0; f < kFields; ++f) fields[f] = x[place<kLayout>(i, f, n)];
  y[i] = energy(fields);
}

__global__ __launch_bounds__(kThreads) void all_fields_wide(const float4* x, float* y, int64_t n) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= n) return;
  const float4 a = x[2 * i], b = x[2 * i + 1];
  y[i] = energy({a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w});
}

struct OneField {
  const float* structures;
  __device__ double operator()(int64_t i) const { return 2.0 * structures[i * kFields + 3]; }
};
struct Energy {
  const float* structures;
  __device__ double operator()(int64_t i) const {
    double sum = 0;
    for (int f = 0; f < 4; ++f)
      sum += static_cast<double>(structures[i * kFields + f]) * structures[i * kFields + 4 + f];
    return sum;
  }
};

struct Layouts {
  Slot<float> structures, arrays, groups;
};
Layouts make_layouts(DeviceTrial& trial, int64_t n) {
  constexpr bool kSameSeed = true;
  return {trial.input_from<float>(n * kFields, Fields<Layout::kStructures>{n}, kSameSeed),
      trial.input_from<float>(n * kFields, Fields<Layout::kArrays>{n}, kSameSeed),
      trial.input_from<float>(n * kFields, Fields<Layout::kGroups>{n}, kSameSeed)};
}

template <class... Params>
void add(DeviceTrial& trial, const char* name, void (*kernel)(Params...), Slot<float> x, Slot<float> y) {
  const int64_t n = y.count;
  using Pointer = std::tuple_element_t<0, std::tuple<Params...>>;
  trial.variant(name, [=](const At& at) {
    gpu::launch({.kernel = name, .grid = {blocks_of(n, kThreads)}, .block = {kThreads}, .numbers = {n}},
        at.stream(), kernel, reinterpret_cast<Pointer>(at[x]), at[y], n);
  });
}

std::unique_ptr<Trial> make_one(const Setup& setup) {
  const int64_t n = setup.dim(0);  // a multiple of 32
  auto trial = std::make_unique<DeviceTrial>(setup);
  const Layouts x = make_layouts(*trial, n);
  const auto y = trial->output<float>(n);
  trial->expect<OneField>(y, [=](const At& at) { return OneField{at[x.structures]}; });
  trial->set_cost({.flops = 1.0 * n, .bytes = 8.0 * n});
  trial->set_touched(8 * n);
  add(*trial, "structures", one_field<Layout::kStructures>, x.structures, y);
  add(*trial, "arrays", one_field<Layout::kArrays>, x.arrays, y);
  add(*trial, "groups", one_field<Layout::kGroups>, x.groups, y);
  return trial;
}

std::unique_ptr<Trial> make_all(const Setup& setup) {
  const int64_t n = setup.dim(0);
  auto trial = std::make_unique<DeviceTrial>(setup);
  const Layouts x = make_layouts(*trial, n);
  const auto y = trial->output<float>(n);
  trial->expect<Energy>(y, [=](const At& at) { return Energy{at[x.structures]}; });
  trial->set_cost({.flops = 7.0 * n, .bytes = 36.0 * n, .roof = Roof::kDramRead});
  trial->set_touched(36 * n);
  add(*trial, "structures", all_fields<Layout::kStructures>, x.structures, y);
  add(*trial, "structures-wide", all_fields_wide, x.structures, y);
  add(*trial, "arrays", all_fields<Layout::kArrays>, x.arrays, y);
  add(*trial, "groups", all_fields<Layout::kGroups>, x.groups, y);
  return trial;
}

const Registered kOneField({
    .id = "ch07/layout-one-field",
    .title = "One field of many structures",
    .question = "What does reading one field cost in an array of structures, in arrays of fields and in "
                "groups of 32?",
    .mechanism = "A field every 32 bytes pulls a whole sector for 4 useful bytes; arrays of fields, and "
                 "groups that hold "
                 "32 of a field together, fetch only what is used.",
    .claim = {.text =
                  "Turning structures into arrays makes the loads of a warp contiguous; no figure is given."},
    .variants = {{"structures", "fields of a structure together: stride 32 bytes"},
        {"arrays", "one array a field"}, {"groups", "32 structures a group, each field together inside it"}},
    .sizes = sizes_of({1 << 20, 1 << 24, 1 << 26}),
    .make = make_one,
});

const Registered kAllFields({
    .id = "ch07/layout-all-fields",
    .title = "All fields of many structures",
    .question = "Is an array of structures still slow when every field is used?",
    .mechanism = "All fetched bytes are used in the end: the strided loads repeat each sector from L1, and "
                 "two 16-byte loads "
                 "take a structure at once, so the layouts should meet at the memory's roof.",
    .claim = {.text = "Arrays of fields are the layout to prefer; no figure is given."},
    .variants = {{"structures", "eight 4-byte loads with stride 32 bytes"},
        {"structures-wide", "two 16-byte loads a structure"}, {"arrays", "one array a field"},
        {"groups", "32 structures a group"}},
    .sizes = sizes_of({1 << 20, 1 << 22, 1 << 24}),
    .tolerance = {.absolute = 2e-6},
    .make = make_all,
});

}  // namespace
}  // namespace cheetah::lab
