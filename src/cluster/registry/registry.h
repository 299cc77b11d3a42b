// SPDX-License-Identifier: MIT
#pragma once
// Who is in the cluster, what it is told to do, and who owns what: a small shared map of keys to values.
//
// Keys are relative to the cluster ("workers/00c0ffee", "config/routing"); values are opaque bytes. A process
// holds one lease: what it announces lives as long as the process does, everything else until it is removed.
// A lease is not a lock: its holder learns of its loss late. So an owner holds what it owns under an epoch
// that counts up (claim.h), and what carries an older epoch is refused.
//
// No call waits for the service. Callbacks come one at a time, on the registry's own thread, never from
// inside a call; they must be short (post to a mailbox) and must not destroy the registry.
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cluster/service.h"

namespace cheetah::cluster {

struct RegistryEntry {
  std::string key, value;
  int64_t revision = 0;  // of the last change of this key: counts up over the whole registry; never 0

  bool operator==(const RegistryEntry&) const = default;
};

struct RegistryEvent {
  enum class Kind : uint8_t {
    kPut,     // this key is new or has changed
    kRemove,  // this key is gone; `entry` is its last known state
    kSynced,  // everything there was when the watch began has been told; comes once
  };
  Kind kind = Kind::kPut;
  RegistryEntry entry;
};

// What happened to this process's own standing.
struct RegistryNotice {
  enum class Kind : uint8_t {
    kUp,         // the service answers
    kDown,       // it does not; the last known map stays
    kLeaseLost,  // what this process had written under its lease is gone and so is what it owned; what it
                 // announces is being announced again under a new lease
  };
  Kind kind = Kind::kUp;
  std::string why;
};

// All of its writes happen, or none: when every expectation holds.
struct Transaction {
  struct Expectation {
    std::string key;
    int64_t revision = 0;  // of its last change; 0: there is no such key
  };
  struct Write {
    std::string key;
    std::optional<std::string> value;  // nullopt: remove it
    bool leased = false;               // goes with this process's lease
  };
  std::vector<Expectation> expect;
  std::vector<Write> writes;
};

struct TransactionResult {
  enum class Kind : uint8_t {
    kDone,
    kConflict,     // some expectation did not hold: nothing was written
    kUnavailable,  // no answer in time: it may have happened or not, or there is no shared registry at all
  };
  Kind kind = Kind::kUnavailable;
  int64_t revision = 0;                // of the writes, when done
  std::vector<RegistryEntry> current;  // on a conflict: the expected keys that are there
  std::string why;                     // when unavailable
};

class Registry {
 public:
  using WatchCallback = std::function<void(const RegistryEvent&)>;
  using NoticeCallback = std::function<void(const RegistryNotice&)>;
  using TransactionCallback = std::function<void(const TransactionResult&)>;
  using Entries = std::map<std::string, RegistryEntry, std::less<>>;
  enum class WatchId : int64_t {};

  virtual ~Registry() = default;

  // Keeps `key` at `value` under this process's lease for as long as the process lives or until withdrawn,
  // through outages and lost leases. Says the same again at no cost. Throws Error for a key over 512 bytes or
  // a value over 1 MiB, here and in transact().
  virtual void announce(std::string key, std::string value) = 0;
  virtual void withdraw(std::string key) = 0;

  // `done` is always called once: within the time limit of a request, or with kUnavailable at the end.
  virtual void transact(Transaction transaction, TransactionCallback done) = 0;

  // What is known under `prefix` at this moment. Survives an outage.
  virtual Entries list(std::string_view prefix) const = 0;

  // Tells all there is under `prefix`, then kSynced, then every change. Changes may be merged (only the last
  // value of a key counts) and nothing is told twice. After an outage keys that are not there any more are
  // told as removed only when they have stayed away for one lease more: their owners were cut off too.
  virtual WatchId watch(std::string prefix, WatchCallback callback) = 0;
  // No callback of this watch runs after it returns, unless it is called from one.
  virtual void unwatch(WatchId id) = 0;
  virtual void on_notice(NoticeCallback callback) = 0;

  virtual ServiceState state() const = 0;
  // False: there is nothing shared to write to (a static peer file); announce() is seen by this process only.
  virtual bool is_shared() const = 0;
};

}  // namespace cheetah::cluster
