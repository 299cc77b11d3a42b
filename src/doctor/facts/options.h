// SPDX-License-Identifier: MIT
#pragma once
// Command lines and lists of options, read as their owners read them.
#include <string>
#include <string_view>
#include <vector>

#include "doctor/text.h"

namespace cheetah::doctor {

// The words of /proc/PID/cmdline, each ended by a zero byte; a fixture writes one a line.
std::vector<std::string> command_words(std::string_view cmdline);

// --flag value, --flag=value, -tp 8, -tp=8, --switch, --no-switch, names in one spelling; the last of two wins.
// Which short options and switches there are depends on the engine that the words start.
Fields engine_settings(const std::vector<std::string>& words);

// A list such as UCX_TLS or NCCL_IB_HCA: names, or with ^ in front all but them, with = exactly them.
struct NameList {
  bool excludes = false, exact = false;
  std::vector<std::string> names;
};
NameList parse_name_list(std::string_view text);

// Whether UCX may use InfiniBand, RoCE or EFA with this value of UCX_TLS.
bool ucx_allows_rdma(std::string_view transports);

// "a:1,b:[256:1,512:2],c:x" -> keys a, b, c: commas inside brackets belong to the value.
std::vector<std::string> keys_of_list(std::string_view text);

// A whole number as NCCL reads it, by strtoll: "0x10", "08" and "1 " are numbers.
std::optional<int64_t> nccl_integer(std::string_view text);

// Variables that belong to a plugin of NCCL's, which reads them by itself.
bool is_plugin_variable(std::string_view name);

}  // namespace cheetah::doctor
