// SPDX-License-Identifier: MIT
#pragma once
// What follows from a token: text, events, and the end of choices and requests.
#include <exception>
#include <utility>

#include "engine/engine_record.h"
#include "engine/exports.h"
#include "engine/flights.h"
#include "engine/imports.h"
#include "engine/outbox.h"
#include "engine/request_table.h"
#include "engine/sequence_pages.h"

namespace cheetah {

// One thread. None of these throws for what a request brings.
class Finisher {
 public:
  struct Parts {
    const ModelTraits& traits;
    const EngineConfig& config;
    RequestTable& requests;
    SequencePages& pages;
    Flights& flights;
    Exports& exports;
    Imports& imports;
    Outbox& outbox;
    EngineRecord& record;
  };
  explicit Finisher(const Parts& parts) : with_(parts) {}

  void take_token(Sequence& sequence, SampledToken& sampled, EngineTime now);
  void take_embedding(Sequence& sequence, EngineTime now);  // the request's is complete
  // The request goes on after tokens that another engine generated: they are taken as read.
  void resume(RequestState& request, EngineTime now);

  void finish(Sequence& sequence, FinishReason reason, EngineTime now, const RequestError& error = {});
  void finish_request(
      RequestState& request, FinishReason reason, EngineTime now, const RequestError& error = {});
  void finish_all(FinishReason reason, EngineTime now, const RequestError& error = {});
  void fail(RequestState& request, const std::exception& error, EngineTime now);
  void expire(EngineTime now);  // requests past their deadline

  // Takes finished requests out of the table: nothing of them is left but events to deliver.
  void sweep();
  // A model's output was not finite, so pages in the prefix cache may be bad. True once.
  bool take_suspicion() { return std::exchange(suspects_cache_, false); }

  static RequestError error_of(const std::exception& error);

 private:
  void append_token(Sequence& sequence, GeneratedToken&& token, EngineTime now);
  bool end_after_token(Sequence& sequence, EngineTime now);
  static bool is_end(const Sequence& sequence, int32_t id);
  void replay(Sequence& sequence, const ResumedChoice& before, EngineTime now);
  void fail_not_finite(Sequence& sequence, EngineTime now);
  static void close_event(Sequence& sequence, FinishReason reason, EngineTime now);
  void send_best(RequestState& request);

  const Parts with_;
  bool suspects_cache_ = false;
};

}  // namespace cheetah
