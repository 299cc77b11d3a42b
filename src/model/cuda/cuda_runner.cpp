// SPDX-License-Identifier: MIT
#include "model/cuda/cuda_runner.h"

#include "model/cuda/cuda_steps.h"

namespace cheetah {
namespace {

// Owns the device's memory, the weights on it and the activations. Members are ordered so that what others
// point into goes last.
template <class T>
class CudaRunner final : public Runner {
 public:
  CudaRunner(const Model& model, const gpu::DeviceInfo& device)
      : traits_(model.traits()),
        memory_(device),
        stream_(device),
        weights_(model.weights(), traits_, place()),
        forward_(traits_, weights_, place()),
        steps_(traits_, forward_, place()) {}

  void forward(const ForwardBatch& batch, KvPool& pool, std::span<float> logits) override {
    gpu::use_device(stream_.device().index);
    forward_.run(batch, pool, logits);
  }
  KvPool make_kv_pool(const KvShape& shape) override { return KvPool(traits_, shape, place()); }
  int64_t max_steps_in_flight() const override { return CudaSteps<T>::kMaxInFlight; }
  StepTicket submit(const ForwardBatch& batch, const StepExtras& extras, KvPool& pool) override {
    gpu::use_device(stream_.device().index);
    return steps_.submit(batch, extras, pool);
  }
  StepResult wait(StepTicket ticket) override {
    gpu::use_device(stream_.device().index);
    return steps_.wait(ticket);
  }
  GraphUse graph_use() const override { return forward_.graph_use(); }

 private:
  DevicePlace place() { return {memory_, stream_}; }
  const ModelTraits& traits_;
  gpu::DeviceMemory memory_;
  gpu::Stream stream_;
  DeviceWeights weights_;
  CudaForward<T> forward_;
  CudaSteps<T> steps_;
};

}  // namespace

std::unique_ptr<Runner> make_cuda_runner(const Model& model, Precision precision, int device_index) {
  const gpu::DeviceInfo device = gpu::query_device(device_index);
  gpu::use_device(device_index);
  if (precision == Precision::kExact) return std::make_unique<CudaRunner<float>>(model, device);
  return std::make_unique<CudaRunner<Bf16>>(model, device);
}

}  // namespace cheetah
