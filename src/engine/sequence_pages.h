// SPDX-License-Identifier: MIT
#pragma once
// Which pages a sequence has: what it gets when it is admitted, grows by, gives up, and leaves to others.
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/kv/page_bytes.h"
#include "engine/kv/page_pool.h"
#include "engine/kv/prefix_cache.h"
#include "engine/sequence.h"
#include "model/kv_layout.h"

namespace cheetah {

// Owns the pool of pages and the prefix cache over it. One thread. Always: every holder of a page is a running
// sequence, the prefix cache, a step in flight, an export or a pin.
class SequencePages {
 public:
  struct Setting {
    const ModelTraits& traits;
    KvLayout layout;
    int64_t num_pages = 0;
    int64_t page_tokens = 16;
    bool prefix_cache = true;
  };
  SequencePages(const Setting& setting, KvPool& kv);  // traits and kv outlive it

  // Gives a waiting sequence the pages that the cache has of its tokens and, in groups without a window, pages
  // for the rest. nullopt: it has to wait after all.
  struct Admission {
    int64_t ready_tokens = 0;  // need not be computed
    bool swapped_in = false;   // it was not new: its pages came back from host memory
    bool looked_up = false;    // in the prefix cache
  };
  std::optional<Admission> admit(Sequence& sequence);
  // Makes pages writable for the next `count` tokens. False: there are none.
  bool prepare(Sequence& sequence, int64_t count);
  void share(const Sequence& from, Sequence& to);  // one more choice of the same prompt

  // A chunk was computed: others may use its pages, and those before each group's window are free.
  void publish(Sequence& sequence);
  void drop_unseen(Sequence& sequence);

  // Preempted: its pages are swapped out or, unless the cache keeps them, lost. It is in no step.
  void give_up(Sequence& sequence, Preemption how);
  // Ended: the cache keeps what it can. `parked` takes the pages that a step in flight still writes to.
  void finish(Sequence& sequence, std::vector<PageIndex>* parked);
  void abandon(Sequence& sequence);  // the engine ends: nothing is kept
  void empty_cache() { cache_.evict(pool_.num_pages()); }

  // What a waiting sequence would find in the cache.
  PrefixMatch peek(const Sequence& sequence) const;
  int64_t cached_tokens(std::string_view cache_salt, std::span<const int32_t> text) const;
  bool reuses(const Sequence& sequence) const;
  bool turns_long(int64_t tokens) const;  // longrope's long factors turn the keys of a text so long
  int64_t num_shared_next(const Sequence& sequence) const;
  // The first page a group needs to go on after `computed` tokens.
  int64_t first_held(size_t group, int64_t computed) const;
  int64_t num_available() const { return pool_.num_free() + pool_.use().idle; }
  bool make_free(int64_t count);

  const KvLayout& layout() const { return layout_; }
  PagePool& pool() { return pool_; }
  const PagePool& pool() const { return pool_; }
  PrefixCache& cache() { return cache_; }
  const PrefixCache& cache() const { return cache_; }
  PageBytes& bytes() { return bytes_; }
  const PageBytes& bytes() const { return bytes_; }

 private:
  static PrefixCache::Writer writer_of(const Sequence& sequence) { return sequence.rank.number; }
  static std::span<const int32_t> reusable_tokens(const Sequence& sequence);
  static const std::string& salt_of(const Sequence& sequence);
  void promise(Sequence& sequence, const PrefixMatch& match);
  bool grow(Sequence& sequence, int64_t full, int64_t windowed);
  bool swap_in(Sequence& sequence);
  void swap_out(Sequence& sequence);
  void keep_in_cache(Sequence& sequence);
  void withdraw_promise(Sequence& sequence);
  void release(Sequence& sequence);

  const ModelTraits& traits_;
  const KvLayout layout_;
  const bool prefix_cache_;
  PageBytes bytes_;
  PagePool pool_;
  PrefixCache cache_;
};

}  // namespace cheetah
