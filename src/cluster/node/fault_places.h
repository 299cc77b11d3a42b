// SPDX-License-Identifier: MIT
#pragma once
// Where a node can be made to fail (failpoints.h).
//
//   send.MESSAGE, receive.MESSAGE   a message of the wire (wire/message.h) to or from another process
//   do.OUTPUT                       before a worker does what its core asks for (core/worker_ports.h)
//   told.INPUT                      before a worker's core hears of what happened
//   client.request, client.event    at a router: a request has come, an event goes to its client
//   transfer.midway                 on the thread that moves pages: a slab is begun and not finished
//
// Names are those of the types: send.Tokens, do.PostSlab, told.JobDelivered.
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cluster/core/worker_ports.h"
#include "cluster/node/failpoints.h"

namespace cheetah::cluster {

std::string_view output_name(const WorkerOutput& output);
std::string_view input_name(const WorkerInput& input);
// What the core would hear had this been tried in vain; nullopt: it cannot fail.
std::optional<WorkerInput> failure_of(const WorkerOutput& output);

// Empty: the place knows the action; else what was expected instead, in a few words.
std::string why_no_place(std::string_view place, FaultAction action);

}  // namespace cheetah::cluster
