// SPDX-License-Identifier: MIT
#pragma once
// What an operator asks a server over HTTP, as plain values: a server passes it on, a cluster answers, and
// neither knows the other.
#include <functional>
#include <string>

namespace cheetah {

struct AdminCall {
  std::string method;  // "GET", "POST"
  std::string path;    // what follows /admin/
  std::string body;    // JSON
  std::string who;     // the name of the key, or "local"
  std::string address;
};

struct AdminAnswer {
  int status = 200;
  std::string body;   // JSON
  std::string error;  // one sentence, where the status is not 200; the body is then made of it
  std::string code;
};

// Called on network threads; the answer may be given at once or later, on any thread, once.
using AdminHandler = std::function<void(AdminCall call, std::function<void(AdminAnswer)> done)>;

}  // namespace cheetah
