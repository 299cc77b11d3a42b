// SPDX-License-Identifier: MIT
#pragma once
// Where /v1/responses keeps what it has answered, for later calls to go on from.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "serve/api/body.h"

namespace cheetah {

struct KeptResponse {
  std::string id;
  std::string previous;  // the one it went on from; "": none
  int64_t created = 0;   // seconds since 1970
  std::string input;     // its own items, a JSON array
  std::string response;  // the JSON that was answered
};

class ResponseArchive {
 public:
  virtual ~ResponseArchive() = default;
  // Returns at once. What is kept is there for every call that begins afterwards.
  virtual void keep(const std::string& tenant, KeptResponse response) = 0;
  // The items of all turns up to and with this one's output, oldest first. nullopt: this tenant has none of this id, or
  // one of those before it is gone. Waits for the disk.
  virtual std::optional<OrderedJson> conversation(const std::string& tenant, const std::string& id) = 0;
};

}  // namespace cheetah
