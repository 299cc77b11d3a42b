// SPDX-License-Identifier: MIT
#include "engine/kv/prefix_cache.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "engine/kv/chain_hash.h"
#include "engine/kv/prefix_node.h"

namespace cheetah {

bool PrefixCache::InOrder::operator()(Run a, Run b) const {
  return std::ranges::lexicographical_compare(a, b);
}

PrefixCache::PrefixCache(PagePool& pool, std::vector<int64_t> windows)
    : pool_(pool),
      windows_(std::move(windows)),
      has_windows_(std::ranges::any_of(windows_, [](int64_t w) { return w > 0; })),
      has_full_(std::ranges::any_of(windows_, [](int64_t w) { return w == 0; })) {}

PrefixCache::~PrefixCache() {
  listener_ = nullptr;
  for (auto& [salt, root] : roots_) remove_below(*root);
}

// Calls visit(node, pages of it that are the same, pages before it) from the root's child down.
template <class Visit>
PrefixCache::Place PrefixCache::walk(Node& root, Run tokens, const Visit& visit) const {
  const auto width = static_cast<size_t>(pool_.page_tokens());
  Place place{.node = &root};
  while (tokens.size() >= width) {
    const auto child = place.node->children.find(tokens.first(width));
    if (child == place.node->children.end()) break;
    Node& node = *child->second;
    size_t same = 1;
    while (static_cast<int64_t>(same) < node.size() && tokens.size() >= (same + 1) * width &&
           std::ranges::equal(
               tokens.subspan(same * width, width), Run(node.tokens).subspan(same * width, width)))
      ++same;
    const auto used = static_cast<int64_t>(same);
    const bool whole = used == node.size();
    const int64_t before = place.pages;
    place = {.node = &node, .used = used, .pages = before + used};
    visit(node, used, before);
    if (!whole) break;
    tokens = tokens.subspan(same * width);
  }
  return place;
}

PrefixCache::Path PrefixCache::find(std::string_view salt, Run tokens) const {
  Path path;
  Node* root = find_root(salt);
  if (!root) return path;
  walk(*root, tokens, [&](Node& node, int64_t used, int64_t before) {
    if (path.stored == before) path.stored = before + std::min(used, node.ready);
    path.known = before + used;
    path.steps.push_back({.node = &node, .before = before, .used = used});
  });
  path.ready = has_windows_ ? ready_pages(path) : path.stored;
  return path;
}

// The longest stored beginning with all of each window before its end.
int64_t PrefixCache::ready_pages(const Path& path) const {
  std::vector<int64_t> begins(num_groups());  // of the run of pages that is there
  int64_t ready = 0;
  for (const Step& step : path.steps)
    for (int64_t i = 0; i < step.used && step.before + i < path.stored; ++i) {
      const int64_t end = step.before + i + 1;
      bool whole = true;
      for (size_t g = 0; g < num_groups(); ++g) {
        if (step.node->at(i, g) == kNoPage) begins[g] = end;
        whole = whole && begins[g] <= first_seen(g, end);
      }
      if (whole) ready = end;
    }
  return ready;
}

// Calls visit(group, index, page) for what a sequence needs that goes on from there.
template <class Visit>
void PrefixCache::for_each_ready(const Path& path, const Visit& visit) const {
  for (size_t g = 0; g < num_groups(); ++g) {
    const int64_t first = first_seen(g, path.ready);
    for (const Step& step : path.steps)
      for (int64_t i = std::max<int64_t>(0, first - step.before);
           i < step.used && step.before + i < path.ready; ++i)
        visit(g, step.before + i, step.node->at(i, g));
  }
}

PrefixMatch PrefixCache::match(
    std::string_view salt, std::span<const int32_t> tokens, std::span<PageList> lists) {
  const Path path = find(salt, tokens);
  for (size_t g = 0; g < num_groups(); ++g) {
    lists[g].pages.assign(static_cast<size_t>(path.ready), 0);
    lists[g].first = first_seen(g, path.ready);
  }
  for_each_ready(path, [&](size_t group, int64_t index, PageIndex page) {
    lists[group].pages[static_cast<size_t>(index)] = page;
  });
  if (!path.steps.empty()) touch(*path.steps.back().node);
  const int64_t width = pool_.page_tokens();
  return {.ready_tokens = path.ready * width,
      .stored_tokens = path.stored * width,
      .known_tokens = path.known * width,
      .idle_pages = 0};
}

PrefixMatch PrefixCache::peek(std::string_view salt, std::span<const int32_t> tokens) const {
  const Path path = find(salt, tokens);
  int64_t idle = 0;
  for_each_ready(path, [&](size_t, int64_t, PageIndex page) { idle += pool_.holders(page) == 1; });
  const int64_t width = pool_.page_tokens();
  return {.ready_tokens = path.ready * width,
      .stored_tokens = path.stored * width,
      .known_tokens = path.known * width,
      .idle_pages = idle};
}

void PrefixCache::insert(
    std::string_view salt, std::span<const int32_t> tokens, Lists lists, int64_t computed, Writer writer) {
  const int64_t width = pool_.page_tokens();
  int64_t count = std::ssize(tokens) / width;
  for (size_t g = 0; g < num_groups(); ++g)
    if (windows_[g] == 0) count = std::min(count, lists[g].size());
  if (count == 0) return;
  tokens = tokens.first(static_cast<size_t>(count * width));
  const int64_t done = std::min(computed / width, count);
  bool stored = true;
  const Place place = walk(root_of(salt), tokens, [&](Node& node, int64_t used, int64_t before) {
    stored = stored && node.ready >= used;
    fill_windows({.node = &node, .before = before, .used = used}, lists, done);
  });
  Node* last = place.node;
  if (place.pages < count && stored) {  // below what is in flight nothing can be ready
    if (last->parent && place.used < last->size()) {
      split(*last, place.used);
      last = last->parent;
    }
    last = &add_leaf(*last, tokens.subspan(static_cast<size_t>(place.pages * width)), lists, place.pages);
    last->writer = writer;
    set_ready(*last, std::clamp<int64_t>(done - place.pages, 0, last->size()));
    fill_windows({.node = last, .before = place.pages, .used = last->size()}, lists, done);
  }
  touch(*last);
}

void PrefixCache::publish(
    std::string_view salt, std::span<const int32_t> tokens, Lists lists, int64_t computed, Writer writer) {
  Node* root = find_root(salt);
  if (!root) return;
  const int64_t done = computed / pool_.page_tokens();
  walk(*root, tokens, [&](Node& node, int64_t used, int64_t before) {
    if (node.writer == writer) set_ready(node, std::min(used, done - before));
    fill_windows({.node = &node, .before = before, .used = used}, lists, done);
  });
}

// Takes the computed pages that the tree's windowed groups lack.
void PrefixCache::fill_windows(const Step& step, Lists lists, int64_t done) {
  Node& node = *step.node;
  const int64_t end = std::min({step.before + step.used, step.before + node.ready, done});
  for (size_t g = 0; g < num_groups(); ++g) {
    if (windows_[g] == 0) continue;
    for (int64_t i = std::max(step.before, lists[g].first); i < std::min(end, lists[g].size()); ++i) {
      PageIndex& place = node.at(i - step.before, g);
      if (place != kNoPage) continue;
      take(place, lists[g].at(i));
      node.without = std::min(node.without, i - step.before);
    }
  }
}

void PrefixCache::abandon(std::string_view salt, std::span<const int32_t> tokens, Writer writer) {
  Node* root = find_root(salt);
  if (!root) return;
  Node* first = nullptr;  // with something of ours in flight
  walk(*root, tokens, [&](Node& node, int64_t, int64_t) {
    if (!first && node.writer == writer && node.ready < node.size()) first = &node;
  });
  // A sequence that shares what is in flight waits for it, so all below is ours.
  if (first) cut(*first, first->ready);
}

PrefixCache::Node* PrefixCache::find_root(std::string_view salt) const {
  const auto root = roots_.find(salt);
  return root == roots_.end() ? nullptr : root->second.get();
}

PrefixCache::Node& PrefixCache::root_of(std::string_view salt) {
  if (Node* root = find_root(salt)) return *root;
  Node& root = *roots_.emplace(salt, std::make_unique<Node>()).first->second;
  root.before = chain_begin(salt);
  return root;
}

// The first `at` places become a node of their own above the rest.
void PrefixCache::split(Node& node, int64_t at) {
  const auto tokens = at * pool_.page_tokens();
  const auto pages = at * static_cast<int64_t>(num_groups());
  Node& parent = *node.parent;
  auto lower = std::move(parent.children.extract(node.first_page()).mapped());
  auto upper = std::make_unique<Node>();
  upper->parent = &parent;
  upper->groups = node.groups;
  upper->tokens.assign(node.tokens.begin(), node.tokens.begin() + tokens);
  upper->pages.assign(node.pages.begin(), node.pages.begin() + pages);
  upper->before = node.before;
  upper->chain.assign(node.chain.begin(), node.chain.begin() + at);
  upper->ready = std::min(node.ready, at);
  upper->writer = node.writer;
  upper->without = std::min(node.without, at);
  upper->position = recent_.insert(std::next(node.position), upper.get());
  node.parent = upper.get();
  node.tokens.erase(node.tokens.begin(), node.tokens.begin() + tokens);
  node.pages.erase(node.pages.begin(), node.pages.begin() + pages);
  node.before = upper->end_of_chain();
  node.chain.erase(node.chain.begin(), node.chain.begin() + at);
  node.ready -= upper->ready;
  node.without -= upper->without;
  upper->children.emplace(node.first_page(), std::move(lower));
  const Run key = upper->first_page();
  parent.children.emplace(key, std::move(upper));
}

// Pages of windowed groups come when they are computed.
PrefixCache::Node& PrefixCache::add_leaf(Node& parent, Run tokens, Lists lists, int64_t begin) {
  auto node = std::make_unique<Node>();
  node->parent = &parent;
  node->groups = num_groups();
  node->tokens.assign(tokens.begin(), tokens.end());
  const int64_t size = std::ssize(tokens) / pool_.page_tokens();
  node->pages.assign(static_cast<size_t>(size) * num_groups(), kNoPage);
  node->without = size;
  node->before = parent.end_of_chain();
  const auto width = static_cast<size_t>(pool_.page_tokens());
  for (; tokens.size() >= width; tokens = tokens.subspan(width))
    node->chain.push_back(chain_after(node->end_of_chain(), tokens.first(width)));
  node->position = recent_.insert(recent_.end(), node.get());
  for (size_t g = 0; g < num_groups(); ++g)
    for (int64_t i = 0; windows_[g] == 0 && i < size; ++i) take(node->at(i, g), lists[g].at(begin + i));
  const Run key = node->first_page();
  return *parent.children.emplace(key, std::move(node)).first->second;
}

void PrefixCache::touch(Node& node) {
  for (Node* at = &node; at->parent; at = at->parent) recent_.splice(recent_.end(), recent_, at->position);
}

// Drops the node's places from `keep` on and everything below it; the node itself when nothing is left.
void PrefixCache::cut(Node& node, int64_t keep) {
  remove_below(node);
  tell_gone(node, keep);
  const auto pages = static_cast<size_t>(keep) * num_groups();
  for (PageIndex& place : std::span(node.pages).subspan(pages)) give_back(place);
  if (keep == 0) return erase_empty(node);
  node.pages.resize(pages);
  node.chain.resize(static_cast<size_t>(keep));
  node.tokens.resize(static_cast<size_t>(keep * pool_.page_tokens()));
  node.ready = std::min(node.ready, keep);
  node.without = std::min(node.without, keep);
}

void PrefixCache::remove_below(Node& node) {
  for (auto& [key, child] : node.children) {
    remove_below(*child);
    tell_gone(*child, 0);
    for (PageIndex& place : child->pages) give_back(place);
    recent_.erase(child->position);
  }
  node.children.clear();
}

void PrefixCache::erase_empty(Node& node) {
  recent_.erase(node.position);
  node.parent->children.erase(node.first_page());
}

void PrefixCache::take(PageIndex& place, PageIndex page) {
  place = page;
  pool_.hold(page);
  pool_.mark_cached(page, true);
  ++num_pages_;
}

void PrefixCache::give_back(PageIndex& place) {
  if (place == kNoPage) return;
  const PageIndex page = std::exchange(place, kNoPage);
  pool_.mark_cached(page, false);
  pool_.release(page);
  --num_pages_;
}

void PrefixCache::check_invariants() const {
  std::vector<bool> seen(static_cast<size_t>(pool_.num_pages()));
  int64_t nodes = 0;
  for (const auto& [salt, root] : roots_) check_node(*root, seen, nodes);
  CHEETAH_ASSERT(nodes == num_nodes(), "every node stands once in the order of use");
  CHEETAH_ASSERT(std::ranges::count(seen, true) == num_pages_, "pages are counted");
}

void PrefixCache::check_node(const Node& node, std::vector<bool>& seen, int64_t& nodes) const {
  if (node.parent) {
    ++nodes;
    CHEETAH_ASSERT(node.size() > 0, "a node has pages");
    CHEETAH_ASSERT(
        std::ssize(node.tokens) == node.size() * pool_.page_tokens(), "a page's worth of tokens each");
    CHEETAH_ASSERT(std::ssize(node.chain) == node.size() && node.before == node.parent->end_of_chain(),
        "the chain of hashes goes through");
    CHEETAH_ASSERT(node.ready >= 0 && node.ready <= node.size(), "ready pages are pages");
    CHEETAH_ASSERT(*node.position == &node, "the place in the order of use is the node's");
  }
  for (size_t i = 0; i < node.pages.size(); ++i) {
    const PageIndex page = node.pages[i];
    const int64_t window = windows_[i % num_groups()];
    if (page == kNoPage) {
      CHEETAH_ASSERT(window > 0, "only a windowed group lacks pages");
      continue;
    }
    CHEETAH_ASSERT(window == 0 || static_cast<int64_t>(i / num_groups()) >= node.without,
        "places without windowed pages are counted");
    CHEETAH_ASSERT(!seen[static_cast<size_t>(page)], "a page stands once in the tree");
    CHEETAH_ASSERT(pool_.holders(page) > 0, "the tree holds its pages");
    seen[static_cast<size_t>(page)] = true;
  }
  for (const auto& [key, child] : node.children) {
    CHEETAH_ASSERT(child->parent == &node, "children know their parent");
    CHEETAH_ASSERT(std::ranges::equal(key, child->first_page()), "children are found by their first page");
    CHEETAH_ASSERT(node.ready == node.size() || child->ready == 0, "nothing is ready below what is not");
    check_node(*child, seen, nodes);
  }
}

}  // namespace cheetah
