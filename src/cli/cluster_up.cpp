// SPDX-License-Identifier: MIT
// cheetah cluster up: one process a node, watched over.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <thread>
#include <utility>

#include "base/error.h"
#include "base/format.h"
#include "base/free_port.h"
#include "base/table.h"
#include "base/temp_dir.h"
#include "cli/cluster.h"
#include "cli/cluster_memory.h"
#include "cli/output.h"
#include "cli/signals.h"
#include "cluster/net/crypto.h"
#include "cluster/node/hang_watch.h"
#include "cluster/node/observer.h"
#include "cluster/node/supervisor.h"
#include "hw/cpu.h"

namespace cheetah {
namespace {

using cluster::ProcessPlan;
using cluster::Supervisor;

void write_private(const std::string& path, const std::string& text) {
  const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  const bool written =
      file >= 0 && write(file, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  if (file >= 0) close(file);
  if (!written) throw Error(format("{}: cannot be written", path));
}

std::string new_secret() {
  std::string hex;
  for (const uint8_t byte : cluster::random_nonce()) hex += format("{:02x}", byte);
  return hex + "\n";
}

struct NodePlan {
  std::string role, name;
  uint16_t port = 0;  // for peers
  std::string model;
  std::string flags = {};
  int64_t kv_bytes = 0;  // 0: its flags say it
};

std::vector<NodePlan> node_plans(const UpOptions& options) {
  std::vector<NodePlan> plans;
  for (int i = 0; i < options.num_prefill; ++i)
    plans.push_back({"prefill", format("prefill-{}", i), free_port(), options.model});
  // Without prefill workers the others do both.
  const std::string role = options.num_prefill > 0 ? "decode" : "both";
  for (int i = 0; i < options.num_decode; ++i)
    plans.push_back({role, format("decode-{}", i), free_port(), options.model});
  for (int i = 0; !options.also.empty() && i < options.num_also; ++i)
    plans.push_back({"both", format("also-{}", i), free_port(), options.also});
  plans.push_back({"router", "router", free_port(), options.model});
  return plans;
}

struct Folder {
  std::string path, url;
  cluster::CredentialFiles credentials;
  std::map<std::string, std::string> files = {};  // ours in it: the secret and the list of peers
  bool is_new = false;                            // made for this cluster
};

// Takes the secret away with the cluster. Logs stay where the person named their folder or something went wrong.
class CleanUp {
 public:
  explicit CleanUp(const Folder& folder) : folder_(folder) {}
  ~CleanUp() {
    std::error_code ignored;
    for (const auto& [path, text] : folder_.files) std::filesystem::remove(path, ignored);
    if (folder_.is_new && ended_well_) std::filesystem::remove_all(folder_.path, ignored);
  }
  CleanUp(const CleanUp&) = delete;
  CleanUp& operator=(const CleanUp&) = delete;
  void ended_well() { ended_well_ = true; }

 private:
  const Folder& folder_;
  bool ended_well_ = false;
};

// The program by its own name, which ps and top show; by the kernel's link where its file was replaced.
std::string own_program() {
  std::error_code error;
  const std::filesystem::path path = std::filesystem::read_symlink("/proc/self/exe", error);
  return !error && std::filesystem::exists(path, error) ? path.string() : "/proc/self/exe";
}

// The folder may be cleaned away while the cluster runs, and a process that starts needs its files.
void restore(const Folder& folder) {
  if (access(folder.path.c_str(), F_OK) != 0) mkdir(folder.path.c_str(), 0700);
  for (const auto& [path, text] : folder.files)
    if (access(path.c_str(), F_OK) != 0) write_private(path, text);
}

std::string peers_text(const std::vector<NodePlan>& nodes) {
  std::string peers;
  for (const NodePlan& node : nodes) peers += format("{} 127.0.0.1:{} {}\n", node.role, node.port, node.name);
  return peers;
}

Folder prepare(const UpOptions& options, const std::vector<NodePlan>& nodes) {
  Folder folder{.path = options.folder, .url = options.url, .credentials = options.credentials};
  folder.is_new = folder.path.empty();
  if (folder.is_new) folder.path = TempDir("cheetah-cluster").keep();
  if (mkdir(folder.path.c_str(), 0700) != 0 && access(folder.path.c_str(), W_OK) != 0)
    throw Error(format("{}: cannot be used as a folder for logs", options.folder));
  if (folder.credentials.secret.empty() && folder.credentials.certificate.empty()) {
    folder.credentials.secret = folder.path + "/secret";
    folder.files[folder.credentials.secret] = new_secret();
    unlink(folder.credentials.secret.c_str());  // of an earlier run
  }
  if (!folder.url.empty()) {
    restore(folder);
    return folder;
  }
  folder.files[folder.path + "/peers.txt"] = peers_text(nodes);
  unlink((folder.path + "/peers.txt").c_str());
  folder.url = "peers:" + folder.path + "/peers.txt";
  restore(folder);
  return folder;
}

ProcessPlan process_plan(const UpOptions& options, const NodePlan& node, const Folder& folder) {
  ProcessPlan plan{.name = node.name,
      .command = {own_program(), "serve"},
      .log_file = format("{}/{}.log", folder.path, node.name)};
  const auto add = [&](std::initializer_list<std::string> words) {
    plan.command.insert(plan.command.end(), words);
  };
  if (!node.model.empty()) add({node.model});
  add({"--log-file", plan.log_file, "--log-max-size", options.log_max_size, "--log-keep",
      std::to_string(options.log_keep)});
  add({"--role", node.role, "--cluster", folder.url, "--node-name", node.name, "--cluster-port",
      std::to_string(node.port)});
  if (const auto& files = folder.credentials; files.secret.empty())
    add({"--cluster-cert", files.certificate, "--cluster-key", files.key, "--cluster-ca", files.authorities});
  else
    add({"--secret-file", files.secret});
  if (node.role == "router") add({"--port", std::to_string(options.port)});
  if (node.role == "router" && !options.admin_key_file.empty())
    add({"--admin-key-file", options.admin_key_file});
  if (node.role == "router" && !options.also.empty()) add({"--also-serve", options.also});
  if (node.role != "router") add({"--threads", std::to_string(threads_each(options))});
  if (node.kv_bytes > 0) add({"--kv-memory", std::to_string(node.kv_bytes)});
  if (!options.policy_file.empty()) add({"--policy-file", options.policy_file});
  std::istringstream more(options.more + " " + node.flags);
  for (std::string word; more >> word;) plan.command.push_back(word);
  return plan;
}

// Each worker's flags and its part of the memory; returns what to tell about it.
std::string share_out(const UpOptions& options, std::vector<NodePlan>& nodes) {
  const int64_t prefill = options.num_prefill > 0 ? kv_bytes_for(options, options.more_prefill) : 0;
  const int64_t decode = kv_bytes_for(options, options.more_decode);
  for (NodePlan& node : nodes) {
    if (node.role == "router") continue;
    node.flags = node.role == "prefill" ? options.more_prefill : options.more_decode;
    node.kv_bytes = node.role == "prefill" ? prefill : decode;
  }
  return memory_text(prefill, decode, options);
}

void print_lines(const std::vector<std::string>& lines) {
  for (const std::string& line : lines) print(line + "\n");
  flush_output();
}

// What shows this cluster in another terminal.
std::string status_command(const Folder& folder) {
  const auto& files = folder.credentials;
  return format("cheetah cluster status --cluster {} {}", folder.url,
      files.secret.empty() ? format("--cluster-cert {} --cluster-key {} --cluster-ca {}", files.certificate,
                                 files.key, files.authorities)
                           : format("--secret-file {}", files.secret));
}

// Follows what an operator wants of each pool (cheetah cluster scale): one worker after another comes or goes.
class Scaling {
 public:
  Scaling(const UpOptions& options, std::vector<NodePlan>& nodes, Folder& folder)
      : options_(options), nodes_(nodes), folder_(folder) {
    for (const NodePlan& node : nodes) kv_bytes_[pool_of(node)] = node.kv_bytes;
    kv_bytes_.try_emplace("prefill", kv_bytes_["decode"]);
  }

  void follow(const cluster::OrderBook& orders, Supervisor& supervisor, cluster::Time now,
      std::vector<std::string>& news) {
    forget_those_who_left(supervisor);
    for (const char* const name : {"prefill", "decode"}) {
      const std::string pool = name;
      const auto wanted = orders.replicas(pool);
      if (!wanted) continue;
      const int64_t target = std::min<int64_t>(*wanted, kMostOfAPool);
      while (size_of(pool) < target && add(pool, supervisor, news)) continue;
      while (size_of(pool) > target) retire(pool, supervisor, now, news);
    }
  }

 private:
  static constexpr int64_t kMostOfAPool = 64;
  static constexpr cluster::Duration kDrainLimit = std::chrono::seconds(40);  // more than a server takes

  static std::string pool_of(const NodePlan& node) { return node.name.substr(0, node.name.rfind('-')); }

  int64_t size_of(const std::string& pool) const {
    return std::ranges::count_if(
        nodes_, [&](const NodePlan& node) { return pool_of(node) == pool && !leaving_.contains(node.name); });
  }

  bool add(const std::string& pool, Supervisor& supervisor, std::vector<std::string>& news) {
    const int64_t needed = kv_bytes_.at(pool), free = available_memory_bytes();
    if (needed > free) {
      if (std::exchange(told_of_memory_, true)) return false;
      news.push_back(format("{}: no further worker: it needs {} for keys and values and {} is free", pool,
          human_bytes(static_cast<double>(needed)), human_bytes(static_cast<double>(free))));
      return false;
    }
    told_of_memory_ = false;
    int64_t index = 0;
    const auto taken = [&](const NodePlan& node) { return node.name == format("{}-{}", pool, index); };
    while (std::ranges::any_of(nodes_, taken)) ++index;
    NodePlan node{.role = pool == "decode" && options_.num_prefill == 0 ? "both" : pool,
        .name = format("{}-{}", pool, index),
        .port = free_port(),
        .model = options_.model,
        .flags = pool == "prefill" ? options_.more_prefill : options_.more_decode,
        .kv_bytes = needed};
    news.push_back(format("{} comes: {} are desired", node.name, pool));
    supervisor.add(process_plan(options_, node, folder_));
    nodes_.insert(nodes_.end() - 1, std::move(node));
    tell_peers();
    return true;
  }

  void retire(
      const std::string& pool, Supervisor& supervisor, cluster::Time now, std::vector<std::string>& news) {
    const auto last = std::find_if(nodes_.rbegin(), nodes_.rend(),
        [&](const NodePlan& node) { return pool_of(node) == pool && !leaving_.contains(node.name); });
    news.push_back(format("{} goes: it drains", last->name));
    leaving_.insert(last->name);
    supervisor.retire(last->name, kDrainLimit, now);
  }

  // Its line stays while it drains: peers would cut its links.
  void forget_those_who_left(const Supervisor& supervisor) {
    const size_t before = nodes_.size();
    std::erase_if(nodes_, [&](const NodePlan& node) {
      return leaving_.contains(node.name) && !supervisor.has(node.name) && leaving_.erase(node.name) > 0;
    });
    if (nodes_.size() != before) tell_peers();
  }

  void tell_peers() {
    const auto peers = folder_.files.find(folder_.path + "/peers.txt");
    if (peers == folder_.files.end()) return;
    peers->second = peers_text(nodes_);
    write_private(peers->first + ".new", peers->second);
    std::filesystem::rename(peers->first + ".new", peers->first);
  }

  const UpOptions& options_;
  std::vector<NodePlan>& nodes_;
  Folder& folder_;
  std::map<std::string, int64_t> kv_bytes_;
  std::set<std::string> leaving_;
  bool told_of_memory_ = false;
};

void draw(const Supervisor& supervisor, const cluster::Observer& observer, const Folder& folder, int port) {
  std::string screen = "\033[H\033[2J";
  screen += format("cheetah cluster at http://127.0.0.1:{} (Ctrl-C: drain and end)   logs {}\n{}\n\n", port,
      folder.path, status_command(folder));
  for (const cluster::ProcessState& state : supervisor.states())
    screen += format("  {:<12} {:<14} restarts {}{}\n", state.name,
        state.pid > 0 ? format("process {}", state.pid) : "down", state.restarts,
        state.ending.empty() ? "" : "   last " + state.ending);
  print(screen + "\n" + cluster::workers_table(observer.workers()));
  flush_output();
}

int num_ready(const cluster::Observer& observer) {
  int ready = 0;
  for (const cluster::SeenWorker& worker : observer.workers())
    ready += worker.linked && worker.descriptor.role != cluster::Role::kRouter &&
             worker.descriptor.state == cluster::WorkerState::kReady;
  return ready;
}

// What a node said before it ended, without the program's name.
std::string last_error(const std::string& log_file) {
  constexpr std::string_view kBegins = "cheetah: error: ";
  std::ifstream log(log_file);
  std::string error;
  for (std::string line; std::getline(log, line);)
    if (line.starts_with(kBegins)) error = line.substr(kBegins.size());
  return error;
}

// One that ends by itself before all were ever ready would do so again: its flags, its model or its port are
// wrong.
void check_first_start(const Supervisor& supervisor, const Folder& folder) {
  for (const cluster::ProcessState& state : supervisor.states()) {
    if (!state.exit_code) continue;
    const std::string log = format("{}/{}.log", folder.path, state.name), error = last_error(log);
    const std::string text =
        format("{}: {}", state.name, error.empty() ? format("{}; see {}", state.ending, log) : error);
    if (*state.exit_code == 2) throw UsageError(text);
    throw Error(text);
  }
}

}  // namespace

int num_workers(const UpOptions& options) {
  return options.num_prefill + options.num_decode + (options.also.empty() ? 0 : options.num_also);
}

int threads_each(const UpOptions& options) {
  if (options.threads > 0) return options.threads;
  const int cores = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  return std::max(1, cores / std::max(1, num_workers(options)));
}

int run_up(const UpOptions& given) {
  UpOptions options = given;
  if (options.port == 0) options.port = free_port();
  std::vector<NodePlan> nodes = node_plans(options);
  print_lines({share_out(options, nodes)});
  Folder folder = prepare(options, nodes);
  CleanUp clean_up(folder);
  const cluster::Credentials credentials = cluster::read_credentials(folder.credentials);
  std::vector<ProcessPlan> plans;
  for (const NodePlan& node : nodes) plans.push_back(process_plan(options, node, folder));
  ShutdownSignals signals;
  Supervisor supervisor(std::move(plans), [&folder] { restore(folder); });
  print_lines(supervisor.poll(std::chrono::steady_clock::now()));
  const cluster::Observer observer(cluster::parse_cluster_url(folder.url), credentials);
  bool all_ready = false;
  cluster::HangWatch hangs;
  cluster::ReturnWatch returns;
  const bool terminal = stdout_is_terminal();
  Scaling scaling(options, nodes, folder);
  while (signals.wait_for(std::chrono::milliseconds(terminal ? 500 : 100)) == 0) {
    const auto now = std::chrono::steady_clock::now();
    auto news = supervisor.poll(now);
    const auto processes = supervisor.states();
    const auto seen = observer.workers();
    for (const auto& [name, silent] : hangs.look(processes, seen, now))
      supervisor.kill_hung(name, silent, news);
    for (const std::string& name : returns.look(processes, seen)) news.push_back(name + " is back");
    scaling.follow(observer.orders(), supervisor, now, news);
    if (terminal)
      draw(supervisor, observer, folder, options.port);
    else
      print_lines(news);
    if (all_ready) continue;
    check_first_start(supervisor, folder);
    all_ready = num_ready(observer) >= num_workers(options);
    if (all_ready && !terminal)
      print_lines(
          {format("ready: {} workers, router at http://127.0.0.1:{}", num_workers(options), options.port),
              status_command(folder)});
  }
  print_lines({"draining"});
  print_lines(supervisor.stop(std::chrono::seconds(30)));
  clean_up.ended_well();
  return 0;
}

}  // namespace cheetah
