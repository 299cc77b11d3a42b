#include "engine/kv/prefix_cache.h"

#include <algorithm>

#include "base/error.h"

namespace cheetah {

struct PrefixCache::Node {
  Node* parent = nullptr;  // nullptr: a root, which has no tokens
  std::vector<int32_t> tokens;
  std::vector<PageIndex> pages;
  int64_t ready = 0;  // pages that are computed; the others are in flight
  Children children;
  std::list<Node*>::iterator place;

  int64_t size() const { return static_cast<int64_t>(pages.size()); }
  Run first_page() const { return Run(tokens).first(tokens.size() / pages.size()); }
};

bool PrefixCache::InOrder::operator()(Run a, Run b) const {
  return std::ranges::lexicographical_compare(a, b);
}

PrefixCache::PrefixCache(PagePool& pool) : pool_(pool) {}

PrefixCache::~PrefixCache() {
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
    while (same < node.pages.size() && tokens.size() >= (same + 1) * width &&
           std::ranges::equal(tokens.subspan(same * width, width),
                              Run(node.tokens).subspan(same * width, width)))
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

PrefixMatch PrefixCache::match(std::string_view salt, std::span<const int32_t> tokens,
                               std::vector<PageIndex>& pages) {
  Node* root = find_root(salt);
  if (!root) return {};
  int64_t ready = 0;
  const Place place = walk(*root, tokens, [&](Node& node, int64_t used, int64_t before) {
    if (ready < before) return;  // something above is still in flight
    const int64_t count = std::min(used, node.ready);
    ready = before + count;
    pages.insert(pages.end(), node.pages.begin(), node.pages.begin() + count);
  });
  touch(*place.node);
  return {.ready_tokens = ready * pool_.page_tokens(),
          .known_tokens = place.pages * pool_.page_tokens(),
          .idle_pages = 0};
}

PrefixMatch PrefixCache::peek(std::string_view salt, std::span<const int32_t> tokens) const {
  Node* root = find_root(salt);
  if (!root) return {};
  int64_t ready = 0, idle = 0;
  const Place place = walk(*root, tokens, [&](const Node& node, int64_t used, int64_t before) {
    if (ready != before) return;
    const int64_t count = std::min(used, node.ready);
    ready = before + count;
    idle += std::count_if(node.pages.begin(), node.pages.begin() + count,
                          [&](PageIndex page) { return pool_.holders(page) == 1; });
  });
  return {.ready_tokens = ready * pool_.page_tokens(),
          .known_tokens = place.pages * pool_.page_tokens(),
          .idle_pages = idle};
}

void PrefixCache::insert(std::string_view salt, std::span<const int32_t> tokens,
                         std::span<const PageIndex> pages, int64_t computed) {
  const int64_t width = pool_.page_tokens();
  const int64_t count = std::min(std::ssize(tokens) / width, std::ssize(pages));
  if (count == 0) return;
  tokens = tokens.first(static_cast<size_t>(count * width));
  const Place place = walk(root_of(salt), tokens, [](Node&, int64_t, int64_t) {});
  Node* last = place.node;
  if (place.pages < count) {
    if (last->parent && place.used < last->size()) {
      split(*last, place.used);
      last = last->parent;
    }
    last =
        &add_leaf(*last, tokens.subspan(static_cast<size_t>(place.pages * width)),
                  pages.subspan(static_cast<size_t>(place.pages), static_cast<size_t>(count - place.pages)));
    last->ready = std::clamp<int64_t>(computed / width - place.pages, 0, last->size());
  }
  touch(*last);
}

void PrefixCache::publish(std::string_view salt, std::span<const int32_t> tokens,
                          std::span<const PageIndex> pages, int64_t computed) {
  Node* root = find_root(salt);
  if (!root) return;
  const int64_t done = std::min(computed / pool_.page_tokens(), std::ssize(pages));
  walk(*root, tokens, [&](Node& node, int64_t used, int64_t before) {
    while (node.ready < used && before + node.ready < done &&
           node.pages[static_cast<size_t>(node.ready)] == pages[static_cast<size_t>(before + node.ready)])
      ++node.ready;
  });
}

void PrefixCache::abandon(std::string_view salt, std::span<const int32_t> tokens,
                          std::span<const PageIndex> pages) {
  Node* root = find_root(salt);
  if (!root) return;
  Node* first = nullptr;  // with something of ours in flight
  walk(*root, tokens, [&](Node& node, int64_t used, int64_t before) {
    const int64_t at = before + node.ready;
    if (!first && node.ready < used && at < std::ssize(pages) &&
        node.pages[static_cast<size_t>(node.ready)] == pages[static_cast<size_t>(at)])
      first = &node;
  });
  // Whoever shares what is in flight waits for it, so all below is ours.
  if (first) cut(*first, first->ready);
}

int64_t PrefixCache::evict(int64_t count) {
  int64_t freed = 0;
  for (auto at = recent_.begin(); at != recent_.end() && freed < count;) {
    Node& node = **at++;
    if (!node.children.empty()) continue;
    int64_t keep = node.size();
    while (keep > 0 && freed < count && pool_.holders(node.pages[static_cast<size_t>(keep - 1)]) == 1) {
      --keep;
      ++freed;
    }
    if (keep < node.size()) cut(node, keep);
  }
  if (freed > 0) std::erase_if(roots_, [](const auto& root) { return root.second->children.empty(); });
  return freed;
}

PrefixCache::Node* PrefixCache::find_root(std::string_view salt) const {
  const auto root = roots_.find(salt);
  return root == roots_.end() ? nullptr : root->second.get();
}

PrefixCache::Node& PrefixCache::root_of(std::string_view salt) {
  if (Node* root = find_root(salt)) return *root;
  return *roots_.emplace(salt, std::make_unique<Node>()).first->second;
}

// The first `at` pages become a node of their own above the rest.
void PrefixCache::split(Node& node, int64_t at) {
  const auto tokens = at * pool_.page_tokens();
  Node& parent = *node.parent;
  auto lower = std::move(parent.children.extract(node.first_page()).mapped());
  auto upper = std::make_unique<Node>();
  upper->parent = &parent;
  upper->tokens.assign(node.tokens.begin(), node.tokens.begin() + tokens);
  upper->pages.assign(node.pages.begin(), node.pages.begin() + at);
  upper->ready = std::min(node.ready, at);
  upper->place = recent_.insert(std::next(node.place), upper.get());
  node.parent = upper.get();
  node.tokens.erase(node.tokens.begin(), node.tokens.begin() + tokens);
  node.pages.erase(node.pages.begin(), node.pages.begin() + at);
  node.ready -= upper->ready;
  upper->children.emplace(node.first_page(), std::move(lower));
  const Run key = upper->first_page();
  parent.children.emplace(key, std::move(upper));
}

PrefixCache::Node& PrefixCache::add_leaf(Node& parent, Run tokens, std::span<const PageIndex> pages) {
  auto node = std::make_unique<Node>();
  node->parent = &parent;
  node->tokens.assign(tokens.begin(), tokens.end());
  node->pages.assign(pages.begin(), pages.end());
  node->place = recent_.insert(recent_.end(), node.get());
  for (const PageIndex page : pages) {
    pool_.hold(page);
    pool_.mark_cached(page, true);
  }
  num_pages_ += node->size();
  const Run key = node->first_page();
  return *parent.children.emplace(key, std::move(node)).first->second;
}

void PrefixCache::touch(Node& node) {
  for (Node* at = &node; at->parent; at = at->parent) recent_.splice(recent_.end(), recent_, at->place);
}

// Drops the node's pages from `keep` on and everything below it; the node itself when nothing is left.
void PrefixCache::cut(Node& node, int64_t keep) {
  remove_below(node);
  for (int64_t i = keep; i < node.size(); ++i) give_back(node.pages[static_cast<size_t>(i)]);
  if (keep == 0) return erase_empty(node);
  node.pages.resize(static_cast<size_t>(keep));
  node.tokens.resize(static_cast<size_t>(keep * pool_.page_tokens()));
  node.ready = std::min(node.ready, keep);
}

void PrefixCache::remove_below(Node& node) {
  for (auto& [key, child] : node.children) {
    remove_below(*child);
    for (const PageIndex page : child->pages) give_back(page);
    recent_.erase(child->place);
  }
  node.children.clear();
}

void PrefixCache::erase_empty(Node& node) {
  recent_.erase(node.place);
  node.parent->children.erase(node.first_page());
}

void PrefixCache::give_back(PageIndex page) {
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
    CHEETAH_ASSERT(std::ssize(node.tokens) == node.size() * pool_.page_tokens(),
                   "a page's worth of tokens each");
    CHEETAH_ASSERT(node.ready >= 0 && node.ready <= node.size(), "ready pages are pages");
    CHEETAH_ASSERT(*node.place == &node, "the place in the order of use is the node's");
  }
  for (const PageIndex page : node.pages) {
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
