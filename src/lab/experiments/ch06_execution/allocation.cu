// SPDX-License-Identifier: MIT
// Temporary memory taken and given back around a small piece of work.
#include <vector>

#include "lab/experiments/device_trial.cuh"

namespace cheetah::lab {
namespace {

constexpr int kTemporaries = 16;
constexpr int kPieceBytes = 4096;  // what passes through each of them

// A pool of the device's stream-ordered allocator. `keep`: it gives nothing back to the driver.
class Pool {
 public:
  explicit Pool(bool keep) {
    cudaMemPoolProps properties{};
    properties.allocType = cudaMemAllocationTypePinned;
    properties.location = {cudaMemLocationTypeDevice, 0};
    gpu::check(cudaGetDevice(&properties.location.id));
    gpu::check(cudaMemPoolCreate(&pool_, &properties));
    uint64_t threshold = keep ? ~uint64_t{0} : 0;
    gpu::check(cudaMemPoolSetAttribute(pool_, cudaMemPoolAttrReleaseThreshold, &threshold));
  }
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;
  ~Pool() { cudaMemPoolDestroy(pool_); }
  cudaMemPool_t handle() const { return pool_; }

 private:
  cudaMemPool_t pool_ = nullptr;
};

// A free list: memory of one size, taken from the driver once.
class FreeList {
 public:
  FreeList() = default;
  FreeList(const FreeList&) = delete;
  FreeList& operator=(const FreeList&) = delete;
  ~FreeList() {
    for (void* block : blocks_) cudaFree(block);
  }
  void* take(int64_t bytes) {
    if (blocks_.empty()) {
      void* block = nullptr;
      gpu::check(cudaMalloc(&block, static_cast<size_t>(bytes)));
      return block;
    }
    void* block = blocks_.back();
    blocks_.pop_back();
    return block;
  }
  void give(void* block) { blocks_.push_back(block); }

 private:
  std::vector<void*> blocks_;
};

struct Copied {
  const uint32_t* in;
  __device__ double operator()(int64_t i) const { return in[i]; }
};

struct Temporaries {
  uint32_t* at[kTemporaries];
};

// Block k passes its piece of the input through temporary k.
__global__ void pass_pieces(const uint32_t* in, uint32_t* out, const Temporaries temporaries) {
  constexpr int kWords = kPieceBytes / 4;
  for (int i = static_cast<int>(threadIdx.x); i < kWords; i += static_cast<int>(blockDim.x)) {
    const unsigned at = blockIdx.x * kWords + static_cast<unsigned>(i);
    volatile uint32_t* temporary = temporaries.at[blockIdx.x];
    temporary[i] = in[at];
    out[at] = temporary[i];
  }
}

// Takes all temporaries, uses each, gives them back.
template <class Take, class Give>
void pass_through(const At& at, Slot<uint32_t> in, Slot<uint32_t> out, const Take& take, const Give& give) {
  Temporaries temporaries;
  for (uint32_t*& each : temporaries.at) each = static_cast<uint32_t*>(take());
  gpu::launch({.kernel = "pass_pieces", .grid = {kTemporaries}, .block = {256}}, at.stream(), pass_pieces,
      at[in], at[out], temporaries);
  for (uint32_t* each : temporaries.at) give(each);
}

std::unique_ptr<Trial> make(const Setup& setup) {
  const int64_t bytes = setup.dim(0);
  auto trial = std::make_unique<DeviceTrial>(setup);
  const auto in = trial->input<uint32_t>(kTemporaries * kPieceBytes / 4);
  const auto out = trial->output<uint32_t>(in.count);
  trial->expect<Copied>(out, [=](const At& at) { return Copied{at[in]}; });
  trial->set_cost({.roof = Roof::kNone, .items = kTemporaries, .item = "allocation"});
  trial->variant("malloc", [=](const At& at) {
    pass_through(
        at, in, out,
        [=] {
          void* block = nullptr;
          gpu::check(cudaMalloc(&block, static_cast<size_t>(bytes)));
          return block;
        },
        [](void* block) { gpu::check(cudaFree(block)); });
  });
  const auto from_pool = [=](const std::shared_ptr<Pool>& pool) {
    return [=](const At& at) {
      pass_through(
          at, in, out,
          [&] {
            void* block = nullptr;
            gpu::check(cudaMallocFromPoolAsync(
                &block, static_cast<size_t>(bytes), pool->handle(), at.stream().handle()));
            return block;
          },
          [&](void* block) { gpu::check(cudaFreeAsync(block, at.stream().handle())); });
    };
  };
  trial->variant("pool-releasing", from_pool(std::make_shared<Pool>(false)));
  trial->variant("pool-keeping", from_pool(std::make_shared<Pool>(true)));
  const auto list = std::make_shared<FreeList>();
  trial->variant("free-list", [=](const At& at) {
    pass_through(
        at, in, out, [&] { return list->take(bytes); }, [&](void* block) { list->give(block); });
  });
  return trial;
}

const Registered kAllocation({
    .id = "ch06/allocation",
    .title = "Temporary memory in a hot loop",
    .question = "What does taking and giving back device memory cost: from the driver, from a pool, from a "
                "free list?",
    .mechanism = "cudaMalloc maps memory and cudaFree waits for the device. The stream-ordered pool hands "
                 "out what it holds, "
                 "but by default returns everything to the driver at each synchronisation; keeping it makes "
                 "an allocation "
                 "a search, and a free list of one size a pop.",
    .claim = {.text = "Stream-ordered allocation has lower overhead, less fragmentation and fewer latency "
                      "spikes; no figure is given.",
        .variant = "pool-keeping"},
    .timing = Timing::kWallClock,
    .rotation = Rotation::kHot,
    .variants = {{"malloc", "cudaMalloc and cudaFree"},
        {"pool-releasing", "cudaMallocAsync, default release threshold"},
        {"pool-keeping", "cudaMallocAsync, nothing released"}, {"free-list", "our own list of equal blocks"}},
    .sizes = sizes_of({1 << 16, 1 << 22, 1 << 26}),
    .make = make,
});

}  // namespace
}  // namespace cheetah::lab
