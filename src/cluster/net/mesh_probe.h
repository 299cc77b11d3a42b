// SPDX-License-Identifier: MIT
#pragma once
// What a mesh reported, for tests: every wait has a deadline.
#include <chrono>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "base/mailbox.h"
#include "cluster/net/mesh.h"

namespace cheetah::cluster {

struct MeshReport {
  enum Kind { kUp, kDown, kMessage, kPressed, kRelieved, kRefused } kind;
  WorkerId peer{};
  std::string text;
};

class MeshProbe {
 public:
  MeshEvents events() {
    return {.on_up =
                [this](WorkerId peer) {
                  inbox_.post({MeshReport::kUp, peer, ""});
                },
        .on_down =
            [this](WorkerId peer, const std::string& why) {
              inbox_.post({MeshReport::kDown, peer, why});
            },
        .on_message =
            [this](WorkerId peer, std::string&& text) {
              inbox_.post({MeshReport::kMessage, peer, text});
            },
        .on_pressure =
            [this](WorkerId peer, bool pressed) {
              inbox_.post({pressed ? MeshReport::kPressed : MeshReport::kRelieved, peer, ""});
            },
        .on_refused =
            [this](const std::string& address, const std::string& why) {
              inbox_.post({MeshReport::kRefused, {}, address + ": " + why});
            }};
  }

  // Until `enough` holds of all reports so far, or a long time has passed. True when it does.
  bool wait(const std::function<bool(const std::vector<MeshReport>&)>& enough,
      std::chrono::milliseconds limit = std::chrono::seconds(30)) {
    const auto until = std::chrono::steady_clock::now() + limit;
    std::vector<MeshReport> batch;
    while (!enough(seen)) {
      if (!inbox_.wait_until(until)) return false;
      inbox_.take_all(batch);
      for (MeshReport& report : batch) seen.push_back(std::move(report));
    }
    return true;
  }
  static size_t count(const std::vector<MeshReport>& reports, MeshReport::Kind kind) {
    size_t found = 0;
    for (const MeshReport& report : reports) found += report.kind == kind;
    return found;
  }
  bool wait_for(
      MeshReport::Kind kind, size_t times = 1, std::chrono::milliseconds limit = std::chrono::seconds(30)) {
    return wait([&](const auto& reports) { return count(reports, kind) >= times; }, limit);
  }
  std::vector<std::string> texts(MeshReport::Kind kind) const {
    std::vector<std::string> texts;
    for (const MeshReport& report : seen)
      if (report.kind == kind) texts.push_back(report.text);
    return texts;
  }

  std::vector<MeshReport> seen;

 private:
  Mailbox<MeshReport> inbox_;
};

}  // namespace cheetah::cluster
