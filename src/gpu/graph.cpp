// SPDX-License-Identifier: MIT
#include "gpu/graph.h"

#include "gpu/check.cuh"

namespace cheetah::gpu {
namespace {

struct Recording {  // destroys what was captured, however recording ends
  cudaGraph_t graph = nullptr;
  ~Recording() {
    if (graph) cudaGraphDestroy(graph);
  }
};

}  // namespace

Graph Graph::record(Stream& stream, const std::function<void()>& work) {
  Recording recording;
  check(cudaStreamBeginCapture(stream.handle(), cudaStreamCaptureModeThreadLocal), stream);
  try {
    work();
  } catch (...) {
    cudaStreamEndCapture(stream.handle(), &recording.graph);
    cudaGetLastError();  // an interrupted capture leaves an error that concerns nobody else
    throw;
  }
  check(cudaStreamEndCapture(stream.handle(), &recording.graph), stream);
  size_t num_nodes = 0;
  check(cudaGraphGetNodes(recording.graph, nullptr, &num_nodes));
  Graph result;
  check(cudaGraphInstantiate(&result.exec_, recording.graph, 0));
  result.num_nodes_ = static_cast<int64_t>(num_nodes);
  return result;
}

Graph::~Graph() {
  if (exec_) cudaGraphExecDestroy(exec_);
}

void Graph::launch(Stream& stream) const {
  stream.log().add({.kernel = "graph", .numbers = {num_nodes_}, .num_numbers = 1});
  check(cudaGraphLaunch(exec_, stream.handle()), stream);
}

}  // namespace cheetah::gpu
