// SPDX-License-Identifier: MIT
#include "doctor/facts/gpu.h"

#include <algorithm>

#include "base/error.h"
#include "base/format.h"

namespace cheetah::doctor {
namespace {

constexpr int kMaxGpus = 256;

// Where distributions and the container toolkit put the driver's and CUDA's libraries.
constexpr const char* kLibraryFolders[] = {
    "usr/lib/x86_64-linux-gnu",
    "usr/lib/aarch64-linux-gnu",
    "usr/lib64",
    "usr/local/cuda/lib64",
    "usr/local/cuda/compat",
    "usr/local/nvidia/lib64",
};

Value<std::vector<std::string>> find_libraries(const Source& source) {
  std::vector<std::string> found;
  for (const char* folder : kLibraryFolders)
    for (const std::string& name : source.list(folder))
      for (const char* stem : {"libcuda.so.", "libcudart.so.", "libnccl.so.", "libnvidia-ml.so."})
        if (starts_with(name, stem)) found.push_back(std::string(folder) + "/" + name);
  if (found.empty())
    return Value<std::vector<std::string>>::absent("usr/lib", "no CUDA library lies in the usual places");
  return {std::move(found), "usr/lib"};
}

// "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.65.06  Release Build …"
Value<std::string> read_module_version(const Source& source) {
  const Text text = source.read("proc/driver/nvidia/version");
  if (!text.ok()) return Value<std::string>::absent(text);
  for (const std::string_view word : words_of(std::string_view(text.text).substr(0, text.text.find('\n')))) {
    const size_t dot = word.find('.');
    if (dot != std::string_view::npos && dot > 1 && to_integer(word.substr(0, dot)))
      return {printable(word), text.path};
  }
  return Value<std::string>::unreadable(text.path, "it names no version: '" + printable(text.text) + "'");
}

Value<std::string> read_license(const Source& source) {
  const Text text = source.read("proc/driver/nvidia/version");
  if (!text.ok()) return Value<std::string>::absent(text);
  return {contains(text.text, "Open Kernel Module") ? "open" : "closed", text.path};
}

}  // namespace

Value<std::string> Gpu::text(const std::string& field) const {
  const auto found = fields.find(field);
  const std::string where = format("{}#gpu.{}.{}", source, index, field);
  if (found == fields.end())
    return Value<std::string>::absent(where, "the driver does not tell it for this GPU");
  return {found->second, where};
}

Value<double> Gpu::number(const std::string& field) const {
  const auto value = text(field);
  if (!value) return Value<double>::absent(value.source(), value.reason());
  const auto parsed = to_integer(*value);
  const auto number = parsed ? std::optional<double>(static_cast<double>(*parsed)) : to_number(*value);
  if (!number)
    return Value<double>::unreadable(value.source(), "expected a number, found '" + printable(*value) + "'");
  return {*number, value.source()};
}

// "processes=1234:1073741824,…"
std::vector<GpuProcess> Gpu::processes() const {
  std::vector<GpuProcess> result;
  const std::string list = text("processes").value_or("");
  for (const std::string_view part : split(list, ',')) {
    const size_t colon = part.find(':');
    const auto pid = to_integer(part.substr(0, colon));
    if (!pid || colon == std::string_view::npos) continue;
    result.push_back({*pid, to_integer(part.substr(colon + 1)).value_or(0)});
  }
  return result;
}

// "gpu.3.name=…" for one GPU, "gpu.*.name=…" for all that have no line of their own.
std::vector<Gpu> parse_gpus(std::string_view text, const std::string& source) {
  std::map<int, Gpu> gpus;
  Fields shared;
  for (const std::string_view line : lines_of(text)) {
    if (!starts_with(line, "gpu.")) continue;
    const size_t dot = line.find('.', 4), equals = line.find('=');
    if (dot == std::string_view::npos || equals == std::string_view::npos || dot > equals) continue;
    const std::string name(line.substr(dot + 1, equals - dot - 1));
    const std::string value = printable(trimmed(line.substr(equals + 1)), 4096);
    const std::string_view which = line.substr(4, dot - 4);
    if (which == "*") shared[name] = value;
    const auto index = to_integer(which);
    if (!index || *index < 0 || *index >= kMaxGpus) continue;
    Gpu& gpu = gpus[static_cast<int>(*index)];
    gpu.index = static_cast<int>(*index);
    gpu.source = source;
    gpu.fields[name] = value;
  }
  std::vector<Gpu> result;
  for (auto& [index, gpu] : gpus) {
    gpu.fields.insert(shared.begin(), shared.end());
    result.push_back(std::move(gpu));
  }
  return result;
}

double GpuFacts::compute_capability() const {
  return count() > 0 ? gpus->front().number("cc").value_or(0) : 0;
}

Value<std::string> GpuFacts::library_version(std::string_view stem) const {
  if (!libraries) return Value<std::string>::absent(libraries.source(), libraries.reason());
  std::string best;
  for (const std::string& path : *libraries) {
    const std::string name = path.substr(path.rfind('/') + 1);
    if (!starts_with(name, stem)) continue;
    const std::string version = name.substr(stem.size());
    if (std::count(version.begin(), version.end(), '.') > std::count(best.begin(), best.end(), '.') ||
        best.empty())
      best = version;
  }
  if (best.empty()) return Value<std::string>::absent(libraries.source(), format("no {} was found", stem));
  return {best, libraries.source()};
}

GpuFacts collect_gpu(const Source& source) {
  GpuFacts facts;
  Text nvml = source.read("cheetah/nvml");
  if (!nvml.ok()) {
    const Text csv = source.read("cheetah/nvidia-smi.csv");
    if (csv.ok()) nvml = {csv.path, gpu_text_from_csv(csv.text), Absence::kNone, ""};
  }
  if (nvml.ok()) {
    facts.gpus = {parse_gpus(nvml.text, nvml.path), nvml.path};
    const Fields lines = fields_of(nvml.text, '=');
    if (const auto found = lines.find("driver"); found != lines.end())
      facts.driver = {found->second, nvml.path};
    if (const auto cuda = number_in(lines, "cuda")) facts.cuda = {*cuda, nvml.path};
  } else {
    facts.gpus = Value<std::vector<Gpu>>::absent(nvml);
    facts.driver = Value<std::string>::absent(nvml);
    facts.cuda = Value<double>::absent(nvml);
  }
  facts.module_version = read_module_version(source);
  facts.module_license = read_license(source);
  facts.module_parameters = read_fields(source, "proc/driver/nvidia/params", ':');
  const auto driver_gpus = source.list("proc/driver/nvidia/gpus");
  facts.driver_gpus =
      driver_gpus.empty()
          ? Value<std::vector<std::string>>::absent("proc/driver/nvidia/gpus", "the driver is not loaded")
          : Value<std::vector<std::string>>(driver_gpus, "proc/driver/nvidia/gpus");
  facts.device_nodes = read_fields(source, "cheetah/devices", ' ');
  facts.libraries = find_libraries(source);
  return facts;
}

}  // namespace cheetah::doctor
