// SPDX-License-Identifier: MIT
#pragma once
// Small clusters for tests of the policies.
#include <algorithm>
#include <vector>

#include "cluster/policy/route.h"

namespace cheetah::cluster {

inline WorkerId worker_id(uint64_t number) { return static_cast<WorkerId>(number); }

inline WorkerView ready_worker(uint64_t number, Role role) {
  WorkerView w;
  w.descriptor.id = worker_id(number);
  w.descriptor.role = role;
  w.descriptor.state = WorkerState::kReady;
  w.descriptor.model = "m";
  w.descriptor.max_sequences = 16;
  w.descriptor.max_context = 32'768;
  w.descriptor.kv = {.model = "m",
      .dtype = "BF16",
      .order = "keys_by_dimension",
      .page_tokens = 16,
      .num_layers = 16,
      .num_kv_heads = 2,
      .key_dim = 32,
      .value_dim = 32,
      .windows = {},
      .page_bytes = 16 * 4096};
  w.load.pages_total = w.load.pages_free = 1000;
  w.load.prefill_us_per_token = 100;
  w.load.decode_step_us = 10'000;
  w.reachable = true;
  return w;
}

inline ClusterView small_cluster(int num_prefill, int num_decode) {
  ClusterView view;
  for (int i = 0; i < num_decode; ++i)
    view.workers.push_back(ready_worker(static_cast<uint64_t>(100 + i), Role::kDecode));
  for (int i = 0; i < num_prefill; ++i)
    view.workers.push_back(ready_worker(static_cast<uint64_t>(200 + i), Role::kPrefill));
  view.prefill_queue.up = true;
  view.transfer_bytes_per_s = 1e9;
  return view;
}

inline RouteRequest prompt_of(int64_t tokens) {
  RouteRequest request;
  request.model = "m";
  request.prompt_tokens = tokens;
  request.expected_output = 64;
  return request;
}

}  // namespace cheetah::cluster
