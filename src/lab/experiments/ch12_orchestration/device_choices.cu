// SPDX-License-Identifier: MIT
// Who decides what runs next: the host, after it has read a flag, or the card, by conditional nodes, graphs
// it launches itself, and kernels that launch kernels. Compiled with relocatable device code.
#include <algorithm>

#include "gpu/launch.cuh"
#include "lab/array_trial.h"
#include "lab/experiments/ch12_orchestration/graph_builder.cuh"

namespace cheetah::lab {
namespace {

constexpr int kThreads = 256, kBlocks = 16;
constexpr int64_t kCount = kBlocks * kThreads;

__global__ __launch_bounds__(kThreads) void add_to(float* y, float value) {
  y[blockIdx.x * kThreads + threadIdx.x] += value;
}
__global__ __launch_bounds__(kThreads) void add_if(float* y, float value, const int* flag) {
  if (*flag != 0) y[blockIdx.x * kThreads + threadIdx.x] += value;
}

// A loop whose end the data decides: `left` counts down.
__global__ void count_down(int* left) { --*left; }
__global__ void count_down_while(int* left, cudaGraphConditionalHandle more) {
  cudaGraphSetConditional(more, --*left > 0);
}
__global__ void count_down_again(int* left) {
  if (--*left > 0) cudaGraphLaunch(cudaGetCurrentGraphExec(), cudaStreamGraphTailLaunch);
}
__global__ void count_down_guarded(int* left) {
  if (*left > 0) --*left;
}

std::unique_ptr<Trial> make_loop(const Setup& setup) {
  const int rounds = static_cast<int>(setup.dim(0));
  auto trial = std::make_unique<ArrayTrial>(setup);
  const auto x = trial->input<float>("x", kCount);
  const auto limit = trial->input<int>("limit", 1, rounds, rounds + 1);
  const auto left = trial->scratch<int>("left", 1);
  const auto y = trial->output<float>("y", kCount);
  trial->set_cost({.roof = Roof::kNone, .items = 1.0 * rounds, .item = "round"});
  trial->reference([=](const HostArrays& host) {
    for (size_t i = 0; i < host[y].size(); ++i) host[y][i] = host[x][i] + static_cast<float>(rounds);
  });
  const auto begin = [=](const Launch& at) {
    gpu::copy_on_device(at[y], at[x], kCount * 4, at.stream());
    gpu::copy_on_device(at[left], at[limit], 4, at.stream());
  };
  const auto seen = std::make_shared<gpu::PinnedBuffer>(64);
  const auto read_left = [=](const Launch& at) {
    gpu::copy_to_host(seen->data(), at[left], 4, at.stream());
    at.stream().wait();
    return *seen->as<int>();
  };
  trial->variant("host-loop", [=](const Launch& at) {
    begin(at);
    do {
      add_to<<<kBlocks, kThreads, 0, at.stream().handle()>>>(at[y], 1.f);
      count_down<<<1, 1, 0, at.stream().handle()>>>(at[left]);
    } while (read_left(at) > 0);
  });
  trial->variant("host-every-8",
      [=](const Launch& at) {  // kernels past the end see that there is nothing left
        begin(at);
        do {
          for (int i = 0; i < 8; ++i) {
            add_if<<<kBlocks, kThreads, 0, at.stream().handle()>>>(at[y], 1.f, at[left]);
            count_down_guarded<<<1, 1, 0, at.stream().handle()>>>(at[left]);
          }
        } while (read_left(at) > 0);
      });
  const auto loop = std::make_shared<std::unique_ptr<BuiltGraph>>();
  trial->variant("while-node", [=](const Launch& at) {
    if (!*loop) {
      *loop = std::make_unique<BuiltGraph>();
      const cudaGraph_t graph = (*loop)->graph();
      Chain chain(graph);
      const auto more = chain.handle(graph, 1);
      Chain body(chain.condition(more, cudaGraphCondTypeWhile, 1)[0]);
      body.kernel(add_to, kBlocks, kThreads, at[y], 1.f);
      body.kernel(count_down_while, 1, 1, at[left], more);
      (*loop)->instantiate();
    }
    begin(at);
    (*loop)->launch(at.stream());
  });
  const auto again = std::make_shared<std::unique_ptr<BuiltGraph>>();
  trial->variant("relaunch-itself", [=](const Launch& at) {
    if (!*again) {
      *again = std::make_unique<BuiltGraph>();
      Chain chain((*again)->graph());
      chain.kernel(add_to, kBlocks, kThreads, at[y], 1.f);
      chain.kernel(count_down_again, 1, 1, at[left]);
      (*again)->instantiate_for_device(at.stream());
    }
    begin(at);
    (*again)->launch(at.stream());
  });
  return trial;
}

const Registered kLoop({
    .id = "ch12/conditional-while",
    .title = "A loop whose end the data decides",
    .question = "What does a round of a data-dependent loop cost when the host, a WHILE node or the graph "
                "itself closes it?",
    .mechanism = "The host needs a copy, a wait and two launches a round; looking every eighth round spreads "
                 "that. A WHILE node tests "
                 "on the card; a graph that tail-launches itself starts again without the host.",
    .claim = {.text = "Conditional nodes and device launches remove the host's round trip; device launch "
                      "takes about half a host "
                      "launch's latency.",
        .variant = "while-node"},
    .timing = Timing::kWallClock,
    .rotation = Rotation::kHot,
    .min_compute = 90,
    .variants = {{.name = "host-loop", .idea = "the host reads the counter after every round"},
        {.name = "host-every-8", .idea = "the host reads it every eighth round"},
        {.name = "while-node", .idea = "one graph with a WHILE node"},
        {.name = "relaunch-itself", .idea = "a graph that tail-launches itself"}},
    .sizes = {{.label = "4 rounds", .dims = {4}}, {.label = "64 rounds", .dims = {64}},
        {.label = "512 rounds", .dims = {512}}},
    .quick = {{.label = "64 rounds", .dims = {64}}},
    .tolerance = {.relative = 1e-5, .absolute = 1e-4},
    .make = make_loop,
});

// Branches: each of kDecisions flags decides whether a number is added.
constexpr int kDecisions = 16;

__global__ void decide(const int* flags, int which, int* flag) { *flag = flags[which]; }
__global__ void decide_node(const int* flags, int which, cudaGraphConditionalHandle run) {
  cudaGraphSetConditional(run, flags[which] != 0);
}

std::unique_ptr<Trial> make_branch(const Setup& setup) {
  auto trial = std::make_unique<ArrayTrial>(setup);
  const auto x = trial->input<float>("x", kCount);
  const auto flags = trial->input<int>("flags", kDecisions, 0, 2);
  const auto flag = trial->scratch<int>("flag", 1);
  const auto y = trial->output<float>("y", kCount);
  trial->set_cost({.roof = Roof::kNone, .items = kDecisions, .item = "decision"});
  trial->reference([=](const HostArrays& host) {
    float more = 0;
    for (size_t d = 0; d < kDecisions; ++d) more += host[flags][d] ? static_cast<float>(d + 1) : 0.f;
    for (size_t i = 0; i < host[y].size(); ++i) host[y][i] = host[x][i] + more;
  });
  const auto begin = [=](const Launch& at) { gpu::copy_on_device(at[y], at[x], kCount * 4, at.stream()); };
  const auto seen = std::make_shared<gpu::PinnedBuffer>(64);
  trial->variant("host", [=](const Launch& at) {
    begin(at);
    for (int d = 0; d < kDecisions; ++d) {
      decide<<<1, 1, 0, at.stream().handle()>>>(at[flags], d, at[flag]);
      gpu::copy_to_host(seen->data(), at[flag], 4, at.stream());
      at.stream().wait();
      if (*seen->as<int>() != 0)
        add_to<<<kBlocks, kThreads, 0, at.stream().handle()>>>(at[y], static_cast<float>(d + 1));
    }
  });
  const auto add = [&](const char* name, auto decision) {
    const auto built = std::make_shared<std::unique_ptr<BuiltGraph>>();
    trial->variant(name, [=](const Launch& at) {
      if (!*built) {
        *built = std::make_unique<BuiltGraph>();
        Chain chain((*built)->graph());
        for (int d = 0; d < kDecisions; ++d) decision(at, (*built)->graph(), chain, d);
        (*built)->instantiate();
      }
      begin(at);
      (*built)->launch(at.stream());
    });
  };
  add("graph-predicated", [=](const Launch& at, cudaGraph_t, Chain& chain, int d) {
    chain.kernel(decide, 1, 1, at[flags], d, at[flag]);
    chain.kernel(add_if, kBlocks, kThreads, at[y], static_cast<float>(d + 1), at[flag]);
  });
  add("if-nodes", [=](const Launch& at, cudaGraph_t graph, Chain& chain, int d) {
    const auto run = chain.handle(graph, 0);
    chain.kernel(decide_node, 1, 1, at[flags], d, run);
    Chain body(chain.condition(run, cudaGraphCondTypeIf, 1)[0]);
    body.kernel(add_to, kBlocks, kThreads, at[y], static_cast<float>(d + 1));
  });
  return trial;
}

const Registered kBranch({
    .id = "ch12/conditional-if",
    .title = "Branches that the data decides",
    .question = "What does a decision cost when the host, a predicated kernel or an IF node takes it?",
    .mechanism = "The host pays a copy and a wait a decision; a kernel that is always launched and returns "
                 "at once pays only its launch "
                 "in the graph; an IF node is tested on the card and starts a body only where needed.",
    .claim = {.text = "IF nodes remove the host's round trip; no number is given.", .variant = "if-nodes"},
    .timing = Timing::kWallClock,
    .rotation = Rotation::kHot,
    .min_compute = 90,
    .variants = {{.name = "host", .idea = "copy the flag, wait, launch or not"},
        {.name = "graph-predicated", .idea = "a graph; the kernel tests the flag itself"},
        {.name = "if-nodes", .idea = "a graph with sixteen IF nodes"}},
    .sizes = {{.label = "16 decisions", .dims = {kDecisions}}},
    .tolerance = {.relative = 1e-5, .absolute = 1e-4},
    .make = make_branch,
});

// Which of two recorded graphs runs depends on a number on the card.
__global__ void pick_graph(const int* flag, cudaGraphExec_t even, cudaGraphExec_t odd, bool tail) {
  cudaGraphLaunch(*flag != 0 ? odd : even, tail ? cudaStreamGraphTailLaunch : cudaStreamGraphFireAndForget);
}
__global__ void pick_body(const int* flag, cudaGraphConditionalHandle which) {
  cudaGraphSetConditional(which, *flag != 0 ? 1 : 0);
}

void fill_worker(cudaGraph_t graph, float* y, int nodes, float value) {
  Chain chain(graph);
  for (int i = 0; i < nodes; ++i) chain.kernel(add_to, kBlocks, kThreads, y, value);
}

struct Picking {
  BuiltGraph even, odd, launcher, tail_launcher, choice;
};

std::unique_ptr<Trial> make_pick(const Setup& setup) {
  const int nodes = static_cast<int>(setup.dim(0));
  auto trial = std::make_unique<ArrayTrial>(setup);
  const auto x = trial->input<float>("x", kCount);
  const auto flag = trial->input<int>("flag", 1, 0, 2);
  const auto y = trial->output<float>("y", kCount);
  trial->set_cost({.roof = Roof::kNone, .items = 1, .item = "decision"});
  trial->reference([=](const HostArrays& host) {
    const float more = static_cast<float>(nodes) * (host[flag][0] ? 2.f : 1.f);
    for (size_t i = 0; i < host[y].size(); ++i) host[y][i] = host[x][i] + more;
  });
  const auto picking = std::make_shared<std::unique_ptr<Picking>>();
  const auto begin = [=](const Launch& at) {
    if (!*picking) {
      *picking = std::make_unique<Picking>();
      Picking& p = **picking;
      fill_worker(p.even.graph(), at[y], nodes, 1.f);
      fill_worker(p.odd.graph(), at[y], nodes, 2.f);
      p.even.instantiate_for_device(at.stream());
      p.odd.instantiate_for_device(at.stream());
      Chain(p.launcher.graph()).kernel(pick_graph, 1, 1, at[flag], p.even.exec(), p.odd.exec(), false);
      Chain(p.tail_launcher.graph()).kernel(pick_graph, 1, 1, at[flag], p.even.exec(), p.odd.exec(), true);
      p.launcher.instantiate();
      p.tail_launcher.instantiate();
      Chain chain(p.choice.graph());
      const auto which = chain.handle(p.choice.graph(), 0);
      chain.kernel(pick_body, 1, 1, at[flag], which);
      const cudaGraph_t* bodies = chain.condition(which, cudaGraphCondTypeSwitch, 2);
      fill_worker(bodies[0], at[y], nodes, 1.f);
      fill_worker(bodies[1], at[y], nodes, 2.f);
      p.choice.instantiate();
    }
    gpu::copy_on_device(at[y], at[x], kCount * 4, at.stream());
  };
  const auto seen = std::make_shared<gpu::PinnedBuffer>(64);
  trial->variant("host", [=](const Launch& at) {
    begin(at);
    gpu::copy_to_host(seen->data(), at[flag], 4, at.stream());
    at.stream().wait();
    (*seen->as<int>() != 0 ? (*picking)->odd : (*picking)->even).launch(at.stream());
  });
  const auto add = [&](const char* name, BuiltGraph Picking::*graph) {
    trial->variant(name, [=](const Launch& at) {
      begin(at);
      ((**picking).*graph).launch(at.stream());
    });
  };
  add("fire-and-forget", &Picking::launcher);
  add("tail-launch", &Picking::tail_launcher);
  add("switch-node", &Picking::choice);
  return trial;
}

const Registered kPick({
    .id = "ch12/device-graph-launch",
    .title = "The card picks which graph runs",
    .question =
        "How fast does the card start one of several recorded graphs, against the host that reads a flag?",
    .mechanism = "The host must copy the flag and wait before it launches; a kernel launches the graph "
                 "itself, at once or when its own "
                 "graph has ended; a SWITCH node keeps both in one graph. The card's launch takes the same "
                 "time whatever the "
                 "graph's size.",
    .claim = {.text = "Device launch has about half the latency of a host launch, whatever the graph's size.",
        .variant = "fire-and-forget",
        .speedup = 2},
    .timing = Timing::kWallClock,
    .rotation = Rotation::kHot,
    .min_compute = 90,
    .variants = {{.name = "host", .idea = "copy the flag, wait, launch"},
        {.name = "fire-and-forget", .idea = "a kernel launches it beside its own graph"},
        {.name = "tail-launch", .idea = "a kernel launches it after its own graph"},
        {.name = "switch-node", .idea = "one graph with a SWITCH node"}},
    .sizes = {{.label = "1 kernel", .dims = {1}}, {.label = "16 kernels", .dims = {16}},
        {.label = "128 kernels", .dims = {128}}},
    .quick = {{.label = "16 kernels", .dims = {16}}},
    .tolerance = {.relative = 1e-5, .absolute = 1e-4},
    .make = make_pick,
});

}  // namespace
}  // namespace cheetah::lab
