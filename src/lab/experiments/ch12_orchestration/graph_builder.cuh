// SPDX-License-Identifier: MIT
#pragma once
// Graphs made node by node: what recording a stream cannot express (conditional bodies) or must not hold (a
// graph that the device itself launches).
#include <optional>
#include <tuple>

#include "gpu/check.cuh"

namespace cheetah::lab {

// One chain of nodes, each after the one before. The body of a conditional node is a chain of its own.
class Chain {
 public:
  explicit Chain(cudaGraph_t graph) : graph_(graph) {}

  template <class... Params, class... Args>
  void kernel(void (*function)(Params...), int blocks, int threads, Args... args) {
    std::tuple<Params...> values{static_cast<Params>(args)...};
    std::apply(
        [&](auto&... value) {
          void* pointers[] = {const_cast<void*>(static_cast<const void*>(&value))...};
          cudaKernelNodeParams params{};
          params.func = reinterpret_cast<void*>(function);
          params.gridDim = dim3(static_cast<unsigned>(blocks));
          params.blockDim = dim3(static_cast<unsigned>(threads));
          params.kernelParams = pointers;
          cudaGraphNode_t node = nullptr;
          gpu::check(
              cudaGraphAddKernelNode(&node, graph_, last_ ? &*last_ : nullptr, last_ ? 1 : 0, &params));
          last_ = node;
        },
        values);
  }

  // What a kernel of this chain sets to choose what a later condition does; `value` at each launch of the
  // graph.
  cudaGraphConditionalHandle handle(cudaGraph_t whole, unsigned value) const {
    cudaGraphConditionalHandle made{};
    gpu::check(cudaGraphConditionalHandleCreate(&made, whole, value, cudaGraphCondAssignDefault));
    return made;
  }
  // Adds the node and returns the graphs of its bodies, to be filled.
  cudaGraph_t* condition(
      cudaGraphConditionalHandle made, cudaGraphConditionalNodeType type, unsigned bodies) {
    cudaGraphNodeParams params{};
    params.type = cudaGraphNodeTypeConditional;
    params.conditional.handle = made;
    params.conditional.type = type;
    params.conditional.size = bodies;
    cudaGraphNode_t node = nullptr;
#if CUDART_VERSION >= 13000
    gpu::check(cudaGraphAddNode(&node, graph_, last_ ? &*last_ : nullptr, nullptr, last_ ? 1 : 0, &params));
#else
    gpu::check(cudaGraphAddNode(&node, graph_, last_ ? &*last_ : nullptr, last_ ? 1 : 0, &params));
#endif
    last_ = node;
    return params.conditional.phGraph_out;
  }

 private:
  cudaGraph_t graph_;
  std::optional<cudaGraphNode_t> last_;
};

// Owns a graph and its execution.
class BuiltGraph {
 public:
  BuiltGraph() { gpu::check(cudaGraphCreate(&graph_, 0)); }
  BuiltGraph(const BuiltGraph&) = delete;
  BuiltGraph& operator=(const BuiltGraph&) = delete;
  ~BuiltGraph() {
    if (exec_) cudaGraphExecDestroy(exec_);
    cudaGraphDestroy(graph_);
  }
  cudaGraph_t graph() const { return graph_; }
  cudaGraphExec_t exec() const { return exec_; }
  void instantiate() { gpu::check(cudaGraphInstantiate(&exec_, graph_, 0)); }
  // The device may launch it from now on.
  void instantiate_for_device(gpu::Stream& stream) {
    gpu::check(cudaGraphInstantiate(&exec_, graph_, cudaGraphInstantiateFlagDeviceLaunch));
    gpu::check(cudaGraphUpload(exec_, stream.handle()));
    stream.wait();
  }
  void launch(gpu::Stream& stream) const { gpu::check(cudaGraphLaunch(exec_, stream.handle()), stream); }

 private:
  cudaGraph_t graph_ = nullptr;
  cudaGraphExec_t exec_ = nullptr;
};

}  // namespace cheetah::lab
