// SPDX-License-Identifier: MIT
// This build has no CUDA: every way to a device ends in one clear Error.
#include "base/error.h"
#include "gpu/ceilings.h"
#include "gpu/graph.h"
#include "gpu/memory.h"
#include "gpu/nvtx.h"
#include "gpu/pci_address.h"
#include "gpu/tensor_map.h"

namespace cheetah::gpu {
namespace {

[[noreturn]] void refuse() { throw Error(cuda_available().reason); }

}  // namespace

const Availability& cuda_available() {
  static const Availability answer{.available = false,
      .reason =
          "this cheetah was built without CUDA: install the CUDA toolkit 12.4 or later (nvcc) and build it again"};
  return answer;
}

DeviceInfo query_device(int) { refuse(); }
DeviceMemoryBytes device_memory(int) { refuse(); }
void use_device(int) { refuse(); }
std::string pci_address(int) { refuse(); }

Event::Event(Timing) { refuse(); }
Event::~Event() = default;
void Event::record(Stream&) { refuse(); }
bool Event::done() const { refuse(); }
void Event::wait() const { refuse(); }
double milliseconds_between(const Event&, const Event&) { refuse(); }

Stream::Stream(const DeviceInfo&) { refuse(); }
Stream::~Stream() = default;
void Stream::wait() { refuse(); }
void Stream::wait_for(const Event&) { refuse(); }

const char* name_of(ArenaKind) { refuse(); }
DeviceBuffer::~DeviceBuffer() = default;
DeviceMemory::DeviceMemory(const DeviceInfo&) { refuse(); }
DeviceMemory::~DeviceMemory() = default;
DeviceBuffer DeviceMemory::allocate(ArenaKind, int64_t, Stream&) { refuse(); }
void DeviceMemory::trim() { refuse(); }
PinnedBuffer::PinnedBuffer(int64_t) { refuse(); }
PinnedBuffer::~PinnedBuffer() = default;
void copy_to_device(void*, const void*, int64_t, Stream&) { refuse(); }
void copy_to_host(void*, const void*, int64_t, Stream&) { refuse(); }
void copy_on_device(void*, const void*, int64_t, Stream&) { refuse(); }
void fill_bytes(void*, int, int64_t, Stream&) { refuse(); }

Graph Graph::record(Stream&, const std::function<void()>&) { refuse(); }
Graph::~Graph() = default;
void Graph::launch(Stream&) const { refuse(); }

TensorMap make_tensor_map(const void*, const TensorMapShape&) { refuse(); }

double measure_read_bandwidth(DeviceMemory&, Stream&) { refuse(); }
double measure_fma_peak(DeviceMemory&, Stream&) { refuse(); }

NvtxRange::NvtxRange(const char*) {}
NvtxRange::~NvtxRange() = default;

}  // namespace cheetah::gpu
