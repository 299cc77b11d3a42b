#pragma once
// The engine as other threads see it. One thread owns all of its state; these calls only post messages to it.
#include <memory>

#include "engine/generation_backend.h"

namespace cheetah {

class Engine final : public GenerationBackend {
 public:
  Engine(std::shared_ptr<const Model> model,
         const EngineConfig& config);  // shared: the server names and inspects it
  ~Engine() override;

  void submit(GenerationRequest request, EventSink sink) override;
  void cancel(RequestId id) override;
  void pause(RequestId id) override;
  void resume(RequestId id) override;
  void drain(std::chrono::milliseconds limit) override;

  // Runs a tiny request through every part, so that the first real one finds warm caches.
  void warm_up();

  EngineStats stats() const override;
  std::string explain_last(int64_t num_decisions) const override;  // the ring log
  const EngineConfig& config() const override;
  const Model& model() const override;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace cheetah
