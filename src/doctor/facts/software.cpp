// SPDX-License-Identifier: MIT
#include "doctor/facts/software.h"

#include <cctype>

#include "base/error.h"
#include "base/format.h"
#include "doctor/facts/options.h"

namespace cheetah::doctor {
namespace {

constexpr int64_t kMaxBinaryBytes = int64_t{256} << 20;

uint64_t little_endian(std::string_view bytes, size_t offset, size_t size) {
  uint64_t value = 0;
  for (size_t i = 0; i < size; ++i) value |= uint64_t{static_cast<uint8_t>(bytes[offset + i])} << (8 * i);
  return value;
}

void add_document(const Document& document, Fields& settings, int depth) {
  if (depth > 8) return;
  for (const auto& [name, value] : document.members) {
    if (value.is_map()) add_document(value, settings, depth + 1);
    if (value.kind == Document::Kind::kScalar) settings.emplace(setting_name(name), value.text);
    if (value.is_list() && !value.items.empty())
      settings.emplace(setting_name(name), value.items.back().text);
  }
}

Value<Fields> read_settings(const Source& source, const std::string& pid, const std::string& config) {
  Fields settings;
  std::string where;
  if (!pid.empty()) {
    const Text text = source.read("proc/" + pid + "/cmdline", 262144);
    settings = engine_settings(command_words(text.text));
    where = text.path;
  }
  if (!config.empty()) {
    const Text text = source.read(config);
    if (!text.ok()) return Value<Fields>::absent(text);
    try {
      for (const Document& document : parse_documents(text.text, config)) add_document(document, settings, 0);
    } catch (const Error& error) {
      return Value<Fields>::unreadable(config, error.what());
    }
    where = config;
  }
  if (settings.empty())
    return Value<Fields>::absent(
        where, "no settings were given: name a job with --pid or a file with --config");
  return {std::move(settings), where};
}

Value<std::string> read_cuda_version(const Source& source) {
  const Text text = source.read("usr/local/cuda/version.json");
  if (!text.ok()) return Value<std::string>::absent(text);
  const size_t cuda = text.text.find("\"cuda\"");
  const size_t version = text.text.find("\"version\"", cuda == std::string::npos ? 0 : cuda);
  const size_t open = version == std::string::npos ? version : text.text.find('"', version + 9);
  const size_t close = open == std::string::npos ? open : text.text.find('"', open + 1);
  if (close == std::string::npos) return Value<std::string>::unreadable(text.path, "it names no version");
  return {printable(text.text.substr(open + 1, close - open - 1)), text.path};
}

Value<std::vector<DeviceCode>> read_device_code(const Source& source, const std::string& binary) {
  using Codes = Value<std::vector<DeviceCode>>;
  if (binary.empty()) return Codes::absent("", "no program was named: use --binary FILE");
  const Text text = source.read(binary, kMaxBinaryBytes);
  if (!text.ok()) return Codes::absent(text);
  auto codes = find_device_code(text.text);
  if (codes.empty()) return Codes::absent(binary, "it holds no GPU code");
  return {std::move(codes), binary};
}

}  // namespace

std::string setting_name(std::string_view name) {
  std::string result;
  for (size_t i = 0; i < name.size() && i < 128; ++i) {
    const auto c = static_cast<unsigned char>(name[i]);
    if (c == '-' || c == '.') {
      result += '_';
    } else if (std::isupper(c) != 0) {
      if (i > 0 && std::islower(static_cast<unsigned char>(name[i - 1])) != 0) result += '_';
      result += static_cast<char>(std::tolower(c));
    } else {
      result += static_cast<char>(c);
    }
  }
  return result;
}

// A fat binary begins with the magic 0xBA55ED50, a version, the size of its header and of its body. Each
// entry of the body begins with its kind (1 PTX, 2 machine code), its header's size, its own size, and at
// byte 28 the architecture.
std::vector<DeviceCode> find_device_code(std::string_view bytes) {
  constexpr std::string_view kMagic("\x50\xed\x55\xba", 4);
  std::vector<DeviceCode> codes;
  for (size_t at = bytes.find(kMagic); at != std::string_view::npos; at = bytes.find(kMagic, at + 4)) {
    if (bytes.size() - at < 16) break;
    const uint64_t header = little_endian(bytes, at + 6, 2);
    const uint64_t body = little_endian(bytes, at + 8, 8);
    if (header < 16 || body > bytes.size() - at || header > bytes.size() - at - body) continue;
    uint64_t entry = at + header;
    const uint64_t end = entry + body;
    while (entry + 32 <= end && codes.size() < 65536) {
      const uint64_t kind = little_endian(bytes, entry, 2);
      const uint64_t entry_header = little_endian(bytes, entry + 4, 4);
      const uint64_t size = little_endian(bytes, entry + 8, 8);
      if (kind != 1 && kind != 2) break;
      if (entry_header < 32 || size > end - entry || entry_header > end - entry - size) break;
      codes.push_back({static_cast<int>(little_endian(bytes, entry + 28, 4) & 0xffff), kind == 1});
      entry += entry_header + size;
    }
  }
  return codes;
}

Value<std::string> SoftwareFacts::variable(const std::string& name) const {
  for (const Value<Fields>* fields : {&environment, &nccl_config}) {
    if (!*fields) continue;
    const auto found = (*fields)->find(name);
    if (found != (*fields)->end()) return {found->second, fields->source()};
  }
  return Value<std::string>::absent(environment.source(), name + " is not set");
}

Value<std::string> SoftwareFacts::setting(const std::string& name) const {
  if (!settings)
    return settings.is_unreadable() ? Value<std::string>::unreadable(settings.source(), settings.reason())
                                    : Value<std::string>::absent(settings.source(), settings.reason());
  const auto found = settings->find(name);
  if (found == settings->end()) return Value<std::string>::absent(settings.source(), name + " is not set");
  return {found->second, settings.source()};
}

SoftwareFacts collect_software(
    const Source& source, const std::string& pid, const std::string& binary, const std::string& config) {
  SoftwareFacts facts;
  facts.environment = read_fields(source, "cheetah/environ/" + (pid.empty() ? "self" : pid), '=');
  facts.nccl_config = read_fields(source, "etc/nccl.conf", '=');
  facts.settings = read_settings(source, pid, config);
  facts.cuda_version = read_cuda_version(source);
  facts.device_code = read_device_code(source, binary);
  return facts;
}

}  // namespace cheetah::doctor
