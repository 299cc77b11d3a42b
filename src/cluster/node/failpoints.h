// SPDX-License-Identifier: MIT
#pragma once
// Faults on purpose: a test names places of a node and what shall happen when it gets there, so that a
// process dies, hangs or fails in exactly the phase that is meant. Without a setting there is no object of
// this kind, and each place costs one look at a null pointer.
//
//   setting   = fault (";" fault)*                 or "@FILE": a file with one fault a line, read again while
//                                                  the node runs whenever it changes
//   fault     = PLACE "=" ACTION ("," "hit=" N | "," "times=" N | "," "chance=" P | "," "seed=" N)*
//   ACTION    = kill        SIGKILL to this process        stop    SIGSTOP to this process
//             | stall:TIME  this thread sleeps (2s, 300ms) fail    as if what is done there had failed
//             | drop        it is lost on its way          double  it comes twice
//
// hit=N: from the Nth time on that the node comes there (1). times=N: so often at most (once, and without
// limit where `chance` is given). chance=P: of each time, drawn from `seed`. fault_places.h names the places.
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/published.h"

namespace cheetah::cluster {

enum class FaultAction : uint8_t { kNothing, kKill, kStop, kStall, kFail, kDrop, kDouble };
std::string_view name_of(FaultAction action);

class Failpoints {
 public:
  // Throws UsageError for a malformed setting, an unknown place, or an action the place does not have.
  // Faults are reported on `report`, a file descriptor.
  explicit Failpoints(const std::string& setting, int report = 2);

  // The node is there: any thread. Kill, stop and stall have happened when it returns. Each action is a line
  // of its report, written before it happens, so that a test can count those that were fatal.
  FaultAction hit(std::string_view place);
  // Of a file: reads it if it has changed. What cannot be used is told there too and changes nothing.
  void look_again();

 private:
  struct Fault {
    FaultAction action = FaultAction::kNothing;
    int64_t stall_ms = 0;
    int64_t first_hit = 1, times = 1;
    double chance = 1;
    uint64_t seed = 0;
    int64_t hits = 0, injected = 0;
  };
  using Faults = std::multimap<std::string, Fault, std::less<>>;
  static Faults parse(std::string_view text, char separator);
  static void read_option(Fault& fault, std::string_view option);
  static bool is_due(Fault& fault, bool alone);  // of several at one place the first faults

  int report_;
  std::string file_, contents_;  // of the thread that looks again
  Published<Faults> faults_;
};

}  // namespace cheetah::cluster
