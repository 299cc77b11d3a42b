// SPDX-License-Identifier: MIT
#pragma once
// Which pages hold the keys and values of which beginnings of text: a radix tree over whole pages.
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/kv/kv_transfer.h"
#include "engine/kv/page_list.h"

namespace cheetah {

struct PrefixMatch {
  int64_t ready_tokens = 0;   // whole pages from the beginning that can be used now
  int64_t stored_tokens = 0;  // … that are computed: a window before the end may lack pages
  int64_t known_tokens = 0;   // … that can be used soon: a sequence is computing the rest
  int64_t idle_pages = 0;     // of the ready ones, held by the cache alone

  bool in_flight() const { return known_tokens > stored_tokens; }
  bool lacks_windows() const { return stored_tokens > ready_tokens; }
};

// A place in the tree has a page a group of layers. Groups without a window have theirs at every place; a
// windowed group's may be missing, since a text can go on from a place when the window before it is there.
// Holds each of its pages once. A page is pinned while a sequence holds it too: sequences hold all pages of
// groups without a window from the beginning, so what lies above a pinned one is pinned. What is not yet
// computed is in flight and belongs to the sequence that computes it. One thread. Texts of different salts
// never meet.
class PrefixCache {
 public:
  using Lists = std::span<const PageList>;  // one per group

  // Where all groups have windows, nothing is pinned but what they see.
  explicit PrefixCache(PagePool& pool, std::vector<int64_t> windows = {0});
  ~PrefixCache();
  PrefixCache(const PrefixCache&) = delete;
  PrefixCache& operator=(const PrefixCache&) = delete;

  // The longest beginning of `tokens` in the tree. Writes the ready pages to `lists` (not held for the
  // caller) and makes the path the most recently used.
  PrefixMatch match(std::string_view salt, std::span<const int32_t> tokens, std::span<PageList> lists);
  // The same without the pages and without touching anything.
  PrefixMatch peek(std::string_view salt, std::span<const int32_t> tokens) const;

  // Who computes what is in flight; kNobody where nothing is.
  using Writer = uint64_t;
  static constexpr Writer kNobody = 0;

  // Adds the whole pages of `tokens`. Of those, the first `computed` tokens are there, the rest is in flight.
  // Where the tree already has a run, its pages stay; what its windows lack is added.
  void insert(std::string_view salt, std::span<const int32_t> tokens, Lists lists, int64_t computed,
      Writer writer = kNobody);
  // The writer has computed the first `computed` tokens. Anyone's pages fill gaps in windows.
  void publish(
      std::string_view salt, std::span<const int32_t> tokens, Lists lists, int64_t computed, Writer writer);
  // It will not compute the rest: what is still in flight leaves the tree.
  void abandon(std::string_view salt, std::span<const int32_t> tokens, Writer writer);

  // All pages there are of the computed beginning of `tokens`, of every group, the first place's first.
  void list_stored(
      std::string_view salt, std::span<const int32_t> tokens, std::vector<PageIndex>& pages) const;

  // Called with every place that becomes computed or leaves the tree, beginning with those that are there.
  using Listener = std::function<void(const PrefixChange&)>;
  void set_listener(Listener listener);

  // Gives `count` pages back to the pool, or all that are idle: of the least recently used nodes those that
  // only a text branching off in their middle would need, then the ends of leaves; at last any in a window.
  // Never pinned ones. Returns how many.
  int64_t evict(int64_t count);

  int64_t num_pages() const { return num_pages_; }
  int64_t num_nodes() const { return static_cast<int64_t>(recent_.size()); }
  void check_invariants() const;

 private:
  struct Node;
  using Run = std::span<const int32_t>;
  struct InOrder {
    bool operator()(Run a, Run b) const;
  };
  using Children = std::map<Run, std::unique_ptr<Node>, InOrder>;  // keyed by the first page of each

  // Where a walk down the tree ended: `pages` whole pages are the same, the last of them in `node` at `used`.
  struct Place {
    Node* node = nullptr;
    int64_t used = 0;  // pages of node
    int64_t pages = 0;
  };
  template <class Visit>
  Place walk(Node& root, Run tokens, const Visit& visit) const;

  Node* find_root(std::string_view salt) const;
  Node& root_of(std::string_view salt);
  void split(Node& node, int64_t at);
  Node& add_leaf(Node& parent, Run tokens, Lists lists, int64_t begin);
  void touch(Node& node);
  void cut(Node& node, int64_t keep);
  void remove_below(Node& node);
  void erase_empty(Node& node);
  void take(PageIndex& place, PageIndex page);
  void give_back(PageIndex& place);
  void set_ready(Node& node, int64_t ready);
  void tell(const Node& node, int64_t place, bool stored) const;
  void tell_gone(const Node& node, int64_t keep) const;
  void tell_all(const Node& node) const;
  void check_node(const Node& node, std::vector<bool>& seen, int64_t& nodes) const;

  // A walk's result, and how far its pages can be used.
  struct Step {
    Node* node = nullptr;
    int64_t before = 0;  // pages above it
    int64_t used = 0;    // of its pages
  };
  struct Path {
    std::vector<Step> steps;
    int64_t known = 0, stored = 0, ready = 0;  // pages
  };
  Path find(std::string_view salt, Run tokens) const;
  int64_t ready_pages(const Path& path) const;
  template <class Visit>
  void for_each_ready(const Path& path, const Visit& visit) const;
  void fill_windows(const Step& step, Lists lists, int64_t done);
  bool is_pinned(const Node& node, int64_t index) const;
  int64_t evict_windows(Node& node, int64_t count, bool keep_end);
  int64_t evict_end(Node& node, int64_t count);

  size_t num_groups() const { return windows_.size(); }
  int64_t first_seen(size_t group, int64_t pages) const {
    return first_seen_page(windows_[group], pages * pool_.page_tokens(), pool_.page_tokens());
  }

  PagePool& pool_;
  const std::vector<int64_t> windows_;  // a group's; 0: none
  const bool has_windows_, has_full_;
  std::map<std::string, std::unique_ptr<Node>, std::less<>> roots_;
  std::list<Node*> recent_;  // least recently used first, a leaf before the nodes above it
  int64_t num_pages_ = 0;
  Listener listener_;
};

}  // namespace cheetah
