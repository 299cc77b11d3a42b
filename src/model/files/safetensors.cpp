// SPDX-License-Identifier: MIT
#include "model/files/safetensors.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>
#include <vector>

#include "base/checked.h"
#include "base/error.h"
#include "base/format.h"
#include "base/json.h"
#include "model/files/foreign_file.h"

namespace cheetah {
namespace {

// The header limit is the reference implementation's; the others keep a hostile header from costing more
// than it is worth.
constexpr uint64_t kMaxHeaderBytes = 100'000'000;
constexpr size_t kMaxTensors = 1'000'000;
constexpr size_t kMaxNameBytes = 1024;
constexpr size_t kMaxMetadataBytes = size_t{1} << 20;

struct Named {
  std::string_view text;
  DType dtype;
};
constexpr std::array kDTypes = {
    Named{"F32", DType::kF32},
    Named{"F16", DType::kF16},
    Named{"BF16", DType::kBF16},
    Named{"F64", DType::kF64},
    Named{"F8_E4M3", DType::kF8E4M3},
    Named{"F8_E5M2", DType::kF8E5M2},
    Named{"BOOL", DType::kBool},
    Named{"U8", DType::kU8},
    Named{"I8", DType::kI8},
    Named{"I16", DType::kI16},
    Named{"U16", DType::kU16},
    Named{"I32", DType::kI32},
    Named{"U32", DType::kU32},
    Named{"I64", DType::kI64},
    Named{"U64", DType::kU64},
};

// A tensor as the header declares it: [begin, end) within the data section.
struct Entry {
  std::string name;
  DType dtype = DType::kF32;
  Shape shape;
  uint64_t begin = 0;
  uint64_t end = 0;
};

class HeaderReader {
 public:
  HeaderReader(const std::string& file, uint64_t data_bytes) : file_(file), data_bytes_(data_bytes) {}

  std::vector<Entry> read_entries(const Json& header) {
    if (header.size() > kMaxTensors)
      throw Error(format("{}: {} tensors, more than the limit of {}", file_, header.size(), kMaxTensors));
    std::vector<Entry> entries;
    entries.reserve(header.size());
    for (const auto& [name, value] : header.items())
      if (name != "__metadata__") entries.push_back(read_entry(name, value));
    std::stable_sort(entries.begin(), entries.end(),
        [](const Entry& a, const Entry& b) { return std::pair(a.begin, a.end) < std::pair(b.begin, b.end); });
    check_layout(entries);
    return entries;
  }

  std::map<std::string, std::string> read_metadata(const Json& header) const {
    std::map<std::string, std::string> metadata;
    const auto at = header.find("__metadata__");
    if (at == header.end()) return metadata;
    if (!at->is_object())
      throw Error(format(
          "{}: invalid metadata: __metadata__ is {}, expected an object of strings", file_, at->type_name()));
    for (const auto& [key, value] : at->items()) {
      if (!value.is_string() || value.get_ref<const std::string&>().size() > kMaxMetadataBytes)
        throw Error(format("{}: invalid metadata: \"{}\" must be a string of at most {} bytes", file_,
            printable(key), kMaxMetadataBytes));
      metadata.emplace(key, value.get<std::string>());
    }
    return metadata;
  }

 private:
  [[noreturn]] void fail(const std::string& name, const std::string& problem) const {
    throw Error(format("{}: tensor \"{}\": {}", file_, printable(name, 120), problem));
  }

  Entry read_entry(const std::string& name, const Json& value) const {
    Entry entry;
    entry.name = name;
    if (name.empty() || name.size() > kMaxNameBytes)
      fail(name, format("the name has {} bytes, expected 1 to {}", name.size(), kMaxNameBytes));
    if (!value.is_object()) fail(name, format("the entry is {}, expected an object", value.type_name()));
    for (const auto& [key, unused] : value.items())
      if (key != "dtype" && key != "shape" && key != "data_offsets")
        fail(name, format("unknown field \"{}\"", printable(key)));
    entry.dtype = read_dtype(name, value);
    const uint64_t needed = read_shape(name, value, entry);
    read_offsets(name, value, entry);
    if (entry.end - entry.begin != needed)
      fail(name, format("{} bytes declared, shape {} {} needs {}", entry.end - entry.begin,
                     entry.shape.text(), name_of(entry.dtype), needed));
    return entry;
  }

  DType read_dtype(const std::string& name, const Json& value) const {
    const auto at = value.find("dtype");
    if (at == value.end()) fail(name, "the dtype is missing");
    if (!at->is_string()) fail(name, format("the dtype is {}, expected a string", at->type_name()));
    const std::string& text = at->get_ref<const std::string&>();
    for (const Named& known : kDTypes)
      if (known.text == text) return known.dtype;
    fail(name, format("unknown dtype \"{}\"", printable(text)));
  }

  // Returns the bytes the shape needs. Empty tensors are allowed; their other dimensions are still multiplied
  // with care, because Shape::elements() multiplies them too.
  uint64_t read_shape(const std::string& name, const Json& value, Entry& entry) const {
    const auto at = value.find("shape");
    if (at == value.end() || !at->is_array()) fail(name, "the shape is missing or not a list");
    if (at->size() > static_cast<size_t>(Shape::kMaxRank))
      fail(name, format("{} dimensions, more than the limit of {}", at->size(), Shape::kMaxRank));
    bool empty = false;
    Checked<int64_t> bytes = traits_of(entry.dtype).block_bytes;
    for (const Json& dim : *at) {
      if (!dim.is_number_unsigned())
        fail(name, format("dimension {} is not a whole number from 0", printable(dump_json(dim))));
      const auto size = dim.get<uint64_t>();
      if (!std::in_range<int64_t>(size)) fail(name, format("dimension {} is too large", size));
      entry.shape.append(static_cast<int64_t>(size));
      if (size == 0)
        empty = true;
      else
        multiply(name, bytes, size);
    }
    return empty ? 0 : static_cast<uint64_t>(bytes.get());
  }

  void multiply(const std::string& name, Checked<int64_t>& bytes, uint64_t dim) const {
    try {
      bytes *= dim;
    } catch (const Error&) {
      fail(name, "the size of its shape overflows 63 bits");
    }
  }

  void read_offsets(const std::string& name, const Json& value, Entry& entry) const {
    const auto at = value.find("data_offsets");
    if (at == value.end() || !at->is_array() || at->size() != 2 || !(*at)[0].is_number_unsigned() ||
        !(*at)[1].is_number_unsigned())
      fail(name, "data_offsets must be two whole numbers from 0");
    entry.begin = (*at)[0].get<uint64_t>();
    entry.end = (*at)[1].get<uint64_t>();
    if (entry.begin > entry.end) fail(name, format("offsets [{}, {}) are reversed", entry.begin, entry.end));
    if (entry.end > data_bytes_)
      fail(name, format("offsets [{}, {}) reach past the file's {} bytes of data: it is truncated or damaged",
                     entry.begin, entry.end, data_bytes_));
  }

  void check_layout(const std::vector<Entry>& entries) const {
    uint64_t expected = 0;
    const Entry* previous = nullptr;
    for (const Entry& entry : entries) {
      if (entry.begin != expected) {
        const std::string after = previous ? format("\"{}\"", printable(previous->name, 120)) : "the header";
        fail(entry.name, format("offsets [{}, {}) are not contiguous after {}, which ends at {}", entry.begin,
                             entry.end, after, expected));
      }
      expected = entry.end;
      previous = &entry;
    }
    if (expected != data_bytes_)
      throw Error(
          format("{}: the file has {} bytes not covered by the header", file_, data_bytes_ - expected));
  }

  const std::string& file_;
  uint64_t data_bytes_;
};

// What is wrong with the first bytes, or an empty string.
std::string header_problem(std::span<const std::byte> bytes) {
  if (bytes.size() < 8) return format("header length truncated: file has {} bytes, need 8", bytes.size());
  if (std::memcmp(bytes.data(), "GGUF", 4) == 0)
    return "this is a GGUF file under another name: give it a name that ends in .gguf";
  uint64_t length = 0;
  std::memcpy(&length, bytes.data(), sizeof length);
  if (length < 2) return format("header length {} is too small for a JSON object", length);
  if (length > kMaxHeaderBytes)
    return format(
        "header length {} exceeds the limit of {}: this is not a safetensors file", length, kMaxHeaderBytes);
  if (length > bytes.size() - 8)
    return format("header length {} exceeds the {} bytes of the file: it is truncated", length, bytes.size());
  if (bytes[8] != std::byte{'{'}) return "invalid header JSON at byte 0: expected an object";
  return "";
}

std::string_view header_text(std::span<const std::byte> bytes, const std::string& name) {
  if (const std::string problem = header_problem(bytes); !problem.empty())
    // Only now: a good file may start with any bytes, since its first eight are a number.
    throw Error(format("{}: {}", name, describe_foreign_file(bytes, name).value_or(problem)));
  uint64_t length = 0;
  std::memcpy(&length, bytes.data(), sizeof length);
  return {reinterpret_cast<const char*>(bytes.data()) + 8, static_cast<size_t>(length)};
}

}  // namespace

SafetensorsFile SafetensorsFile::parse(std::span<const std::byte> bytes, const std::string& name) {
  SafetensorsFile file;
  file.name_ = name;
  file.file_bytes_ = static_cast<int64_t>(bytes.size());
  const std::string_view text = header_text(bytes, name);
  // The deepest legal value is a list in an object in the header.
  const Json header = parse_json(text, name, {.max_bytes = kMaxHeaderBytes, .max_depth = 4});
  const auto data = bytes.subspan(8 + text.size());
  HeaderReader reader(name, data.size());
  file.metadata_ = reader.read_metadata(header);
  for (Entry& entry : reader.read_entries(header)) {
    const TensorView view{entry.dtype, entry.shape, data.data() + entry.begin};
    file.tensors_.emplace(std::move(entry.name), view);
  }
  return file;
}

SafetensorsFile SafetensorsFile::open(const std::string& path) {
  MappedFile mapped = MappedFile::open(path);
  SafetensorsFile file = parse(mapped.bytes(), path);
  file.file_ = std::move(mapped);
  return file;
}

void SafetensorsFile::prefetch() const {
  if (file_) file_->prefetch(0, file_->size());
}

}  // namespace cheetah
