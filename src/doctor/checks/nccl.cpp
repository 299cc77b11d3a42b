// SPDX-License-Identifier: MIT
// CFG: NCCL's variables, of the job's environment, this shell's, or /etc/nccl.conf.
#include <algorithm>

#include "base/format.h"
#include "base/text.h"
#include "doctor/check.h"
#include "doctor/checks/nearest.h"
#include "doctor/facts/options.h"

namespace cheetah::doctor {
namespace {

// NCCL's documented variables: a name that is near one of these and not among them is a typing mistake.
constexpr std::string_view kNcclNames[] = {
    "NCCL_SOCKET_IFNAME",
    "NCCL_SOCKET_FAMILY",
    "NCCL_SOCKET_RETRY_CNT",
    "NCCL_SOCKET_RETRY_SLEEP_MSEC",
    "NCCL_SOCKET_NTHREADS",
    "NCCL_NSOCKS_PERTHREAD",
    "NCCL_CROSS_NIC",
    "NCCL_IB_HCA",
    "NCCL_IB_TIMEOUT",
    "NCCL_IB_RETRY_CNT",
    "NCCL_IB_GID_INDEX",
    "NCCL_IB_ADDR_FAMILY",
    "NCCL_IB_ADDR_RANGE",
    "NCCL_IB_ROCE_VERSION_NUM",
    "NCCL_IB_SL",
    "NCCL_IB_TC",
    "NCCL_IB_FIFO_TC",
    "NCCL_IB_RETURN_ASYNC_EVENTS",
    "NCCL_IB_CUDA_SUPPORT",
    "NCCL_OOB_NET_ENABLE",
    "NCCL_OOB_NET_IFNAME",
    "NCCL_UID_STAGGER_THRESHOLD",
    "NCCL_UID_STAGGER_RATE",
    "NCCL_NET",
    "NCCL_NET_PLUGIN",
    "NCCL_TUNER_PLUGIN",
    "NCCL_PROFILER_PLUGIN",
    "NCCL_ENV_PLUGIN",
    "NCCL_IGNORE_CPU_AFFINITY",
    "NCCL_CONF_FILE",
    "NCCL_DEBUG",
    "NCCL_DEBUG_FILE",
    "NCCL_DEBUG_SUBSYS",
    "NCCL_DEBUG_TIMESTAMP_FORMAT",
    "NCCL_DEBUG_TIMESTAMP_LEVELS",
    "NCCL_COLLNET_ENABLE",
    "NCCL_COLLNET_NODE_THRESHOLD",
    "NCCL_CTA_POLICY",
    "NCCL_NETDEVS_POLICY",
    "NCCL_TOPO_FILE",
    "NCCL_TOPO_DUMP_FILE",
    "NCCL_SET_THREAD_NAME",
    "NCCL_P2P_DISABLE",
    "NCCL_P2P_LEVEL",
    "NCCL_P2P_DIRECT_DISABLE",
    "NCCL_SHM_DISABLE",
    "NCCL_BUFFSIZE",
    "NCCL_NTHREADS",
    "NCCL_MAX_NCHANNELS",
    "NCCL_MIN_NCHANNELS",
    "NCCL_MAX_NRINGS",
    "NCCL_MIN_NRINGS",
    "NCCL_CHECKS_DISABLE",
    "NCCL_CHECK_POINTERS",
    "NCCL_LAUNCH_MODE",
    "NCCL_IB_DISABLE",
    "NCCL_IB_AR_THRESHOLD",
    "NCCL_IB_QPS_PER_CONNECTION",
    "NCCL_IB_SPLIT_DATA_ON_QPS",
    "NCCL_IB_PCI_RELAXED_ORDERING",
    "NCCL_IB_ADAPTIVE_ROUTING",
    "NCCL_IB_ECE_ENABLE",
    "NCCL_IB_MERGE_NICS",
    "NCCL_IB_MERGE_VFS",
    "NCCL_MEM_SYNC_DOMAIN",
    "NCCL_CUMEM_ENABLE",
    "NCCL_CUMEM_HOST_ENABLE",
    "NCCL_NET_GDR_LEVEL",
    "NCCL_NET_GDR_READ",
    "NCCL_NET_GDR_C2C",
    "NCCL_NET_SHARED_BUFFERS",
    "NCCL_NET_SHARED_COMMS",
    "NCCL_SINGLE_RING_THRESHOLD",
    "NCCL_LL_THRESHOLD",
    "NCCL_TREE_THRESHOLD",
    "NCCL_ALGO",
    "NCCL_PROTO",
    "NCCL_NVB_DISABLE",
    "NCCL_PXN_DISABLE",
    "NCCL_P2P_PXN_LEVEL",
    "NCCL_RUNTIME_CONNECT",
    "NCCL_GRAPH_REGISTER",
    "NCCL_LOCAL_REGISTER",
    "NCCL_LEGACY_CUDA_REGISTER",
    "NCCL_GRAPH_MIXING_SUPPORT",
    "NCCL_DMABUF_ENABLE",
    "NCCL_P2P_NET_CHUNKSIZE",
    "NCCL_P2P_LL_THRESHOLD",
    "NCCL_ALLOC_P2P_NET_LL_BUFFERS",
    "NCCL_COMM_BLOCKING",
    "NCCL_CGA_CLUSTER_SIZE",
    "NCCL_MAX_CTAS",
    "NCCL_MIN_CTAS",
    "NCCL_NVLS_ENABLE",
    "NCCL_NVLS_NCHANNELS",
    "NCCL_MNNVL_ENABLE",
    "NCCL_MNNVL_UUID",
    "NCCL_MNNVL_CLIQUE_ID",
    "NCCL_RAS_ENABLE",
    "NCCL_RAS_ADDR",
    "NCCL_RAS_TIMEOUT_FACTOR",
    "NCCL_LAUNCH_ORDER_IMPLICIT",
    "NCCL_LAUNCH_RACE_FATAL",
    "NCCL_IPC_USE_ABSTRACT_SOCKET",
    "NCCL_SYM_GIN_KERNELS_ENABLE",
    "NCCL_GIN_ENABLE",
    "NCCL_WIN_ENABLE",
    "NCCL_WIN_STRIDE",
    "NCCL_MULTI_RANK_GPU_ENABLE",
    "NCCL_NCHANNELS_PER_NET_PEER",
    "NCCL_HOSTID",
    "NCCL_SHARP_DISABLE",
    "NCCL_VERSION",
};

// Variables of the environment and of nccl.conf whose name begins with `prefix`; absent when none is set.
Value<Fields> variables(const Facts& facts, std::string_view prefix) {
  const SoftwareFacts& software = facts.software;
  if (!software.environment && !software.nccl_config)
    return Value<Fields>::absent(software.environment.source(), software.environment.reason());
  Fields found;
  for (const Value<Fields>* fields : {&software.environment, &software.nccl_config})
    if (*fields)
      for (const auto& [name, value] : **fields)
        if (starts_with(name, prefix)) found.emplace(name, value);
  if (found.empty())
    return Value<Fields>::absent(software.environment.source(), format("no {} variable is set", prefix));
  return {std::move(found), software.environment.source()};
}

Outcome nccl_names_are_right(const Facts& facts) {
  return when_known(
      [](const Fields& found) {
        std::vector<Subject> wrong;
        std::string strange;
        for (const auto& [name, value] : found) {
          if (std::find(std::begin(kNcclNames), std::end(kNcclNames), name) != std::end(kNcclNames)) continue;
          if (is_plugin_variable(name)) continue;
          const std::string_view meant = nearest(name, kNcclNames);
          // A slip of the hand is near its name; one that is far may belong to a version or plugin of its own.
          if (!meant.empty() &&
              edit_distance(name, meant) <= std::max<int64_t>(2, static_cast<int64_t>(name.size()) / 6))
            wrong.push_back({name, format("did you mean {}?", meant)});
          else
            strange += (strange.empty() ? "" : ", ") + name;
        }
        if (wrong.empty() && !strange.empty())
          return note(format("{} NCCL variables; not known to us: {}", found.size(), strange));
        return bad_if_any(std::move(wrong), "NCCL ignores variables it does not know",
            format("{} NCCL variables, all known", found.size()));
      },
      variables(facts, "NCCL_"));
}

// A cloud's network plugin comes with a profile of its own, which sets algorithms and channels on purpose.
bool has_vendor_profile(const Fields& found) {
  return std::any_of(found.begin(), found.end(), [](const auto& variable) {
    return is_plugin_variable(variable.first) || variable.first == "NCCL_NET_PLUGIN" ||
           variable.first == "NCCL_TUNER_PLUGIN" ||
           (variable.first == "NCCL_NET" && variable.second != "Socket" && variable.second != "IB");
  });
}

Outcome nccl_is_not_crippled(const Facts& facts) {
  return when_known(
      [&](const Fields& found) {
        std::vector<Subject> left;
        for (const auto& [name, value] : found)
          if (name.ends_with("_DISABLE") && name != "NCCL_CHECKS_DISABLE" &&
              nccl_integer(value).value_or(0) != 0 &&
              (facts.network.has_rdma() || !starts_with(name, "NCCL_IB_")))
            left.push_back({name, value});
        if (!has_vendor_profile(found))
          for (const char* forced :
              {"NCCL_ALGO", "NCCL_PROTO", "NCCL_MAX_NCHANNELS", "NCCL_MIN_NCHANNELS", "NCCL_LAUNCH_MODE"})
            if (const auto at = found.find(forced); at != found.end())
              left.push_back({at->first, at->second});
        const auto is = [&](const char* name, std::string_view value) {
          const auto at = found.find(name);
          return at != found.end() && trimmed(at->second) == value;
        };
        const bool far = facts.network.has_rdma();
        const auto leave = [&](bool matters, const char* name, const char* value) {
          if (matters && is(name, value)) left.push_back({name, value});
        };
        leave(far, "NCCL_NET", "Socket");
        for (const char* nowhere : {"LOC", "0"}) {
          leave(facts.gpu.count() > 1, "NCCL_P2P_LEVEL", nowhere);
          leave(far, "NCCL_NET_GDR_LEVEL", nowhere);
        }
        leave(facts.gpu.compute_capability() >= 9 && facts.gpu.count() > 1, "NCCL_NVLS_ENABLE", "0");
        return bad_if_any(
            std::move(left), "NCCL is held back by settings of an earlier search", "NCCL chooses by itself");
      },
      variables(facts, "NCCL_"));
}

Outcome nccl_is_quiet(const Facts& facts) {
  return when_known(
      [](const std::string& level) {
        const bool known = level == "VERSION" || level == "WARN" || level == "INFO" || level == "TRACE" ||
                           level == "ABORT" || level == "NONE";
        if (!known) return bad(format("NCCL_DEBUG={} is no level of NCCL", level), {{"NCCL_DEBUG", level}});
        return level == "INFO" || level == "TRACE"
                   ? bad(format("NCCL_DEBUG={} writes a line for every operation", level),
                         {{"NCCL_DEBUG", level}})
                   : good(format("NCCL_DEBUG={}", level));
      },
      facts.software.variable("NCCL_DEBUG"));
}

std::optional<int64_t> integer_of(const Facts& facts, const char* name) {
  const auto value = facts.software.variable(name);
  return value ? to_integer(*value) : std::nullopt;
}

Outcome nccl_numbers_are_sane(const Facts& facts) {
  std::vector<Subject> wrong;
  bool any = false;
  if (const auto threads = facts.software.variable("NCCL_NTHREADS")) {
    any = true;
    if (*threads != "64" && *threads != "128" && *threads != "256" && *threads != "512")
      wrong.push_back({"NCCL_NTHREADS", *threads + ": CUDA threads a block, one of 64, 128, 256, 512"});
  }
  if (const auto size = facts.software.variable("NCCL_BUFFSIZE")) {
    any = true;
    const int64_t bytes = to_integer(*size).value_or(0);
    if (bytes < 1048576 || bytes > 67108864 || (bytes & (bytes - 1)) != 0)
      wrong.push_back({"NCCL_BUFFSIZE", *size + ": a power of two from 1 to 64 MiB; 4 MiB is the default"});
  }
  const auto threads = integer_of(facts, "NCCL_SOCKET_NTHREADS"),
             sockets = integer_of(facts, "NCCL_NSOCKS_PERTHREAD");
  if (threads || sockets) {
    any = true;
    if (threads.value_or(1) > 16 || threads.value_or(1) * sockets.value_or(1) > 64)
      wrong.push_back({"NCCL_SOCKET_NTHREADS", "at most 16 threads and 64 sockets in all"});
  }
  if (!any) return not_applicable("NCCL's sizes are not set: its defaults are good");
  return bad_if_any(std::move(wrong), "NCCL's sizes are out of range", "NCCL's sizes are in range");
}

Outcome socket_interface_exists(const Facts& facts) {
  return when_known(
      [&](const std::string& names, const std::vector<Nic>& nics) {
        const NameList list = parse_name_list(names);
        if (list.names.empty()) return good("NCCL_SOCKET_IFNAME is empty: NCCL chooses");
        if (list.excludes) return good(format("NCCL avoids {}", names.substr(1)));
        for (const std::string& name : list.names)
          for (const Nic& nic : nics)
            if ((list.exact ? nic.name == name : starts_with(nic.name, name)) && nic.is_up())
              return nic.is_wireless || nic.name == "lo"
                         ? bad(format("NCCL_SOCKET_IFNAME={} is {}", names,
                               nic.is_wireless ? "a wireless adapter" : "the loopback"))
                         : good(format("NCCL_SOCKET_IFNAME={} is up", names));
        return bad(format("NCCL_SOCKET_IFNAME={} names no adapter that is up", names));
      },
      facts.software.variable("NCCL_SOCKET_IFNAME"), facts.network.nics);
}

// "400 Gb/sec (4X NDR)"
double rate_of(const RdmaPort& port) {
  const auto words = words_of(port.rate.value_or(""));
  return words.empty() ? 0 : to_number(words[0]).value_or(0);
}

Outcome hca_exists(const Facts& facts) {
  return when_known(
      [&](const std::string& names, const std::vector<RdmaPort>& ports) {
        const NameList list = parse_name_list(names);
        if (list.excludes) return good("NCCL avoids the named adapters");
        std::vector<Subject> lost;
        double chosen = 0, fastest = 0;
        for (const RdmaPort& port : ports)
          if (port.state && contains(*port.state, "ACTIVE")) fastest = std::max(fastest, rate_of(port));
        for (const std::string& entry : list.names) {
          const std::string name = entry.substr(0, entry.find(':'));
          bool found = false;
          for (const RdmaPort& port : ports)
            if (list.exact ? port.device == name : starts_with(port.device, name)) {
              found = true;
              chosen = std::max(chosen, rate_of(port));
            }
          if (!found) lost.push_back({name, "no such adapter"});
        }
        if (lost.empty() && chosen > 0 && chosen < 0.6 * fastest)
          return bad(
              format("NCCL_IB_HCA={} names adapters of {:.0f} Gb/s; this machine has active ones of {:.0f}",
                  names, chosen, fastest));
        return bad_if_any(std::move(lost), "NCCL_IB_HCA names adapters that are not here",
            "NCCL_IB_HCA names adapters of this machine");
      },
      facts.software.variable("NCCL_IB_HCA"), facts.network.rdma);
}

Outcome interface_is_chosen(const Facts& facts) {
  if (!facts.intent.multi_node || !facts.network.nics)
    return not_applicable("one machine (--multi-node asks for it)");
  int up = 0;
  std::vector<Subject> doubtful;
  for (const Nic& nic : *facts.network.nics) {
    if (!nic.is_up() || nic.name == "lo") continue;
    ++up;
    if (nic.is_wireless || starts_with(nic.name, "docker") || starts_with(nic.name, "br-") ||
        starts_with(nic.name, "veth"))
      doubtful.push_back({nic.name, nic.is_wireless ? "wireless" : "a bridge"});
  }
  if (facts.software.variable("NCCL_SOCKET_IFNAME")) return good("NCCL_SOCKET_IFNAME is set");
  if (up <= 1) return good("there is one adapter to choose from");
  return bad_if_any(std::move(doubtful), "NCCL chooses among adapters by itself and may take one of these",
      "every adapter that is up may carry a job");
}

Outcome collnet_has_a_plugin(const Facts& facts) {
  return when_known(
      [&](const std::string& value) {
        if (value != "1") return good("in-network reduction is off");
        const auto plugin = facts.software.variable("NCCL_NET_PLUGIN");
        const bool loaded =
            plugin || (facts.job && facts.job->libraries &&
                          std::any_of(facts.job->libraries->begin(), facts.job->libraries->end(),
                              [](const std::string& path) { return contains(path, "libnccl-net"); }));
        return judge(loaded, loaded ? "in-network reduction is on, with a plugin"
                                    : "NCCL_COLLNET_ENABLE=1 without a network plugin: it does nothing");
      },
      facts.software.variable("NCCL_COLLNET_ENABLE"));
}

Outcome errors_are_handled(const Facts& facts) {
  if (facts.software.variable("NCCL_ASYNC_ERROR_HANDLING"))
    return bad("NCCL_ASYNC_ERROR_HANDLING is the old name; PyTorch reads TORCH_NCCL_ASYNC_ERROR_HANDLING");
  return when_known(
      [](const std::string& value) {
        return judge(value != "0", format("TORCH_NCCL_ASYNC_ERROR_HANDLING={}", value));
      },
      facts.software.variable("TORCH_NCCL_ASYNC_ERROR_HANDLING"));
}

constexpr Check kChecks[] = {
    {"CFG-01", Layer::kConfiguration, Level::kWarn, 0.12, "NCCL's variables exist",
        "NCCL ignores names it does not know: a typing mistake leaves the default in place, in silence.",
        "the setting you rely on has no effect", FixKind::kSetting, "correct the name of {it}", "", "O04",
        nccl_names_are_right},
    {"CFG-34", Layer::kConfiguration, Level::kFail, 0.30, "NCCL is not held back",
        "P2P_DISABLE, IB_DISABLE and forced algorithms are tools of a search for errors; left on, they cost the "
        "fast path.",
        "2x to 10x slower collectives", FixKind::kSetting, "unset {it}", "", "O04,E04", nccl_is_not_crippled},
    {"CFG-35", Layer::kConfiguration, Level::kWarn, 0.02, "NCCL is quiet in production",
        "INFO and TRACE write from every rank.", "log traffic, slower start", FixKind::kSetting,
        "export NCCL_DEBUG=WARN", "", "O04", nccl_is_quiet},
    {"CFG-03", Layer::kConfiguration, Level::kWarn, 0.05, "NCCL's sizes are in range",
        "Values copied from old advice are out of range and are refused or harmful.", "slower collectives",
        FixKind::kSetting, "unset {it}", "", "O04", nccl_numbers_are_sane},
    {"CFG-04", Layer::kConfiguration, Level::kFail, 0.30, "NCCL's interface exists",
        "A wrong name ends the start, or puts bootstrap on the wrong network.", "no start, or a slow path",
        FixKind::kSetting, "export NCCL_SOCKET_IFNAME= the fast adapter's name", "", "O04",
        socket_interface_exists},
    {"CFG-36", Layer::kConfiguration, Level::kFail, 0.30, "NCCL's adapters exist",
        "Adapters that are not here leave RDMA unused.", "fallback to TCP", FixKind::kSetting,
        "export NCCL_IB_HCA= the adapters of /sys/class/infiniband", "", "O04", hca_exists},
    {"CFG-37", Layer::kConfiguration, Level::kWarn, 0.15, "The network is chosen, not guessed",
        "With several adapters up NCCL may take a bridge or Wi-Fi.", "bootstrap hangs or a slow path",
        FixKind::kSetting, "export NCCL_SOCKET_IFNAME= the fast adapter's name", "", "O04",
        interface_is_chosen},
    {"CFG-05", Layer::kConfiguration, Level::kWarn, 0.05, "In-network reduction has its plugin",
        "CollNet needs the SHARP plugin.", "the switch's reduction stays unused", FixKind::kSetting,
        "install nccl-rdma-sharp-plugins, or unset NCCL_COLLNET_ENABLE", "", "O04", collnet_has_a_plugin},
    {"CFG-07", Layer::kConfiguration, Level::kWarn, 0.05, "A lost peer ends the job",
        "Without error handling the others wait for a dead rank until an operator looks.",
        "hours of idle GPUs after a failure", FixKind::kSetting,
        "export TORCH_NCCL_ASYNC_ERROR_HANDLING=1 and set a timeout", "", "B05", errors_are_handled},
};

}  // namespace

std::span<const Check> nccl_checks() { return kChecks; }

}  // namespace cheetah::doctor
