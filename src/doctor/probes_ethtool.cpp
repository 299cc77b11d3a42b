// SPDX-License-Identifier: MIT
// The counters of a network adapter's driver, by ioctl: no file holds them.
#include "doctor/probes_ethtool.h"

#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

#include "base/error.h"
#include "base/format.h"
#include "base/unique_fd.h"
#include "doctor/text.h"

namespace cheetah::doctor {
namespace {

constexpr uint32_t kMaxCounters = 16384;

bool ask(int fd, const std::string& nic, void* question) {
  ifreq request{};
  std::memcpy(request.ifr_name, nic.c_str(), std::min(nic.size(), sizeof request.ifr_name - 1));
  request.ifr_data = static_cast<char*>(question);
  return ioctl(fd, SIOCETHTOOL, &request) == 0;
}

bool concerns_us(std::string_view name) {
  if (contains(name, "_prio") && contains(name, "pause")) return !contains(name, "duration");
  for (const char* wanted : {"rx_discards_phy", "tx_discards_phy", "rx_out_of_buffer", "rx_crc_errors_phy",
           "rx_symbol_err_phy", "link_down_events_phy", "rx_pcs_symbol_err_phy", "outbound_pci_stalled_wr"})
    if (name == wanted) return true;
  return false;
}

// The question is followed by its answer: one number.
uint32_t count_counters(int fd, const std::string& nic) {
  std::vector<uint64_t> room(sizeof(ethtool_sset_info) / 8 + 1);
  auto* info = reinterpret_cast<ethtool_sset_info*>(room.data());
  info->cmd = ETHTOOL_GSSET_INFO;
  info->sset_mask = uint64_t{1} << ETH_SS_STATS;
  if (!ask(fd, nic, info) || info->sset_mask == 0) return 0;
  uint32_t count = 0;
  std::memcpy(&count, reinterpret_cast<const char*>(room.data()) + sizeof(ethtool_sset_info), sizeof count);
  return std::min(count, kMaxCounters);
}

}  // namespace

Text ethtool_counters(const std::string& nic) {
  const UniqueFd fd(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (fd.get() < 0) return {"", "", Absence::kUnreadable, std::strerror(errno)};
  const uint32_t count = count_counters(fd.get(), nic);
  if (count == 0) return {"", "", Absence::kMissing, "the driver has no counters of its own"};
  // Room for more than was said: a driver that grew in between writes past the number otherwise.
  std::vector<uint64_t> names_room(
      (sizeof(ethtool_gstrings) + (count + 64) * size_t{ETH_GSTRING_LEN}) / 8 + 1);
  std::vector<uint64_t> values_room(sizeof(ethtool_stats) / 8 + count + 65);
  auto* names = reinterpret_cast<ethtool_gstrings*>(names_room.data());
  names->cmd = ETHTOOL_GSTRINGS;
  names->string_set = ETH_SS_STATS;
  names->len = count;
  auto* values = reinterpret_cast<ethtool_stats*>(values_room.data());
  values->cmd = ETHTOOL_GSTATS;
  values->n_stats = count;
  if (!ask(fd.get(), nic, names) || !ask(fd.get(), nic, values))
    return {"", "", Absence::kUnreadable, std::strerror(errno)};
  std::string text;
  const char* name_bytes = reinterpret_cast<const char*>(names_room.data()) + sizeof(ethtool_gstrings);
  const char* value_bytes = reinterpret_cast<const char*>(values_room.data()) + sizeof(ethtool_stats);
  for (uint32_t i = 0; i < std::min({count, names->len, values->n_stats}); ++i) {
    const char* at = name_bytes + size_t{i} * ETH_GSTRING_LEN;
    const std::string name = printable(std::string_view(at, strnlen(at, ETH_GSTRING_LEN)));
    uint64_t value = 0;
    std::memcpy(&value, value_bytes + size_t{i} * sizeof value, sizeof value);
    if (concerns_us(name)) text += format("{} {}\n", name, value);
  }
  return {"", std::move(text), Absence::kNone, ""};
}

}  // namespace cheetah::doctor
