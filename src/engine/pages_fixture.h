// SPDX-License-Identifier: MIT
#pragma once
// For tests of single parts of the engine: pages of a small model, and requests that no engine has.
#include <memory>

#include "engine/core_fixture.h"
#include "engine/kv/chain_hash.h"
#include "engine/request_table.h"
#include "engine/sequence_pages.h"

namespace cheetah {

struct PagesFixture {
  explicit PagesFixture(int64_t num_pages = 16, std::shared_ptr<const Model> of = small_model())
      : model(std::move(of)),
        plan(plan_memory(model->traits(), 0, small_config(num_pages, *model), int64_t{8} << 30)),
        kv(model->traits(), {.dtype = plan.config.kv_dtype,
                                .num_pages = num_pages,
                                .page_tokens = plan.config.page_tokens,
                                .layout = plan.layout}),
        pages({.traits = model->traits(),
                  .layout = plan.layout,
                  .num_pages = num_pages,
                  .page_tokens = plan.config.page_tokens},
            kv),
        table(*model, plan.config, plan.layout.windows.size(), EngineTime{}) {}

  // A request whose one sequence waits.
  RequestState& add(int64_t prompt_tokens, uint64_t seed = 1, GenerationRequest request = {}) {
    auto state = std::make_unique<RequestState>();
    state->request = std::move(request);
    state->request.id = RequestId{++last_id};
    state->request.prompt = random_prompt(prompt_tokens, seed);
    for (const bool is_long : {false, true}) state->salts[is_long] = prefix_salt("", is_long);
    RequestState& added = table.add(std::move(state));
    table.start_choice(added);
    table.enqueue(*added.choices.front());
    return added;
  }
  Sequence& admit(RequestState& request) {
    Sequence& sequence = *request.choices.front();
    EXPECT_TRUE(pages.admit(sequence));
    table.run(sequence);
    return sequence;
  }
  // As if a step had computed all of it.
  void compute(Sequence& sequence) {
    EXPECT_TRUE(pages.prepare(sequence, sequence.pending()));
    sequence.set_computed(std::ssize(sequence.tokens));
    pages.publish(sequence);
  }
  int64_t num_free() const { return pages.pool().num_free(); }

  std::shared_ptr<const Model> model;
  MemoryPlan plan;
  KvPool kv;
  SequencePages pages;
  RequestTable table;
  uint64_t last_id = 0;
};

}  // namespace cheetah
