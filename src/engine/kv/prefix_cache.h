#pragma once
// Which pages hold the keys and values of which beginnings of text: a radix tree over whole pages.
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/kv/page_pool.h"

namespace cheetah {

struct PrefixMatch {
  int64_t ready_tokens = 0;  // whole pages from the beginning that can be used now
  int64_t known_tokens = 0;  // … that can be used soon: a sequence is computing the rest
  int64_t idle_pages = 0;    // of the ready ones, held by the cache alone

  bool in_flight() const { return known_tokens > ready_tokens; }
};

// Holds each of its pages once. A page is pinned while a sequence holds it too: sequences hold all pages from
// the beginning, so what lies above a pinned page is pinned. A page not yet computed is in flight and is held
// by the sequence that computes it. One thread. Texts of different salts never meet.
class PrefixCache {
 public:
  explicit PrefixCache(PagePool& pool);
  ~PrefixCache();
  PrefixCache(const PrefixCache&) = delete;
  PrefixCache& operator=(const PrefixCache&) = delete;

  // The longest beginning of `tokens` in the tree. Appends the ready pages to `pages` (not held for the
  // caller) and makes the path the most recently used.
  PrefixMatch match(std::string_view salt, std::span<const int32_t> tokens, std::vector<PageIndex>& pages);
  // The same without the pages and without touching anything.
  PrefixMatch peek(std::string_view salt, std::span<const int32_t> tokens) const;

  // Adds the whole pages of `tokens`; pages[i] holds tokens [i, i + 1) * page_tokens. Of those, the first
  // `computed` tokens are there, the rest is in flight. Where the tree already has a run, its pages stay.
  void insert(std::string_view salt, std::span<const int32_t> tokens, std::span<const PageIndex> pages,
              int64_t computed);
  // The sequence that inserted these pages has computed the first `computed` tokens.
  void publish(std::string_view salt, std::span<const int32_t> tokens, std::span<const PageIndex> pages,
               int64_t computed);
  // It will not compute the rest: what is still in flight leaves the tree.
  void abandon(std::string_view salt, std::span<const int32_t> tokens, std::span<const PageIndex> pages);

  // Gives up to `count` pages back to the pool, from the ends of the least recently used leaves, never pinned
  // ones. Returns how many.
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
  Node& add_leaf(Node& parent, Run tokens, std::span<const PageIndex> pages);
  void touch(Node& node);
  void cut(Node& node, int64_t keep);
  void remove_below(Node& node);
  void erase_empty(Node& node);
  void give_back(PageIndex page);
  void check_node(const Node& node, std::vector<bool>& seen, int64_t& nodes) const;

  PagePool& pool_;
  std::map<std::string, std::unique_ptr<Node>, std::less<>> roots_;
  std::list<Node*> recent_;  // least recently used first, a leaf before the nodes above it
  int64_t num_pages_ = 0;
};

}  // namespace cheetah
