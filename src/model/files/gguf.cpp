// SPDX-License-Identifier: MIT
#include "model/files/gguf.h"

#include <algorithm>
#include <array>
#include <bit>
#include <utility>

#include "base/checked.h"
#include "base/error.h"
#include "base/format.h"
#include "model/files/byte_reader.h"
#include "model/files/foreign_file.h"

namespace cheetah {
namespace {

static_assert(std::endian::native == std::endian::little, "values are read in place");

constexpr uint64_t kMaxStringBytes = uint64_t{64} << 20;
constexpr uint64_t kMaxArrayElements = uint64_t{64} << 20;
constexpr uint64_t kMaxKeys = 65536;
constexpr uint64_t kMaxKeyBytes = 65535;  // the format's own limit
constexpr uint64_t kMaxTensors = 1'000'000;
constexpr uint64_t kMaxTensorNameBytes = 64;  // the format's own limit
constexpr uint64_t kMaxAlignment = 65536;
constexpr uint32_t kMaxDims = 4;
// The least a key (length, one byte, type, one byte) and a tensor (length, one byte, one dimension, type,
// offset) take in the file: a count that needs more than what is left is a lie.
constexpr uint64_t kMinKeyBytes = 8 + 1 + 4 + 1;
constexpr uint64_t kMinTensorBytes = 8 + 1 + 4 + 8 + 4 + 8;

struct StoredType {
  uint32_t id;
  std::string_view name;
  std::optional<DType> dtype;  // nullopt: known, not supported
};
// ggml's type numbers.
constexpr std::array kStoredTypes = {
    StoredType{0, "F32", DType::kF32},
    StoredType{1, "F16", DType::kF16},
    StoredType{2, "Q4_0", DType::kQ4_0},
    StoredType{3, "Q4_1", DType::kQ4_1},
    StoredType{6, "Q5_0", DType::kQ5_0},
    StoredType{7, "Q5_1", DType::kQ5_1},
    StoredType{8, "Q8_0", DType::kQ8_0},
    StoredType{9, "Q8_1", std::nullopt},
    StoredType{10, "Q2_K", std::nullopt},
    StoredType{11, "Q3_K", std::nullopt},
    StoredType{12, "Q4_K", DType::kQ4_K},
    StoredType{13, "Q5_K", DType::kQ5_K},
    StoredType{14, "Q6_K", DType::kQ6_K},
    StoredType{15, "Q8_K", std::nullopt},
    StoredType{16, "IQ2_XXS", {}},
    StoredType{17, "IQ2_XS", {}},
    StoredType{18, "IQ3_XXS", {}},
    StoredType{19, "IQ1_S", {}},
    StoredType{20, "IQ4_NL", {}},
    StoredType{21, "IQ3_S", {}},
    StoredType{22, "IQ2_S", {}},
    StoredType{23, "IQ4_XS", {}},
    StoredType{24, "I8", DType::kI8},
    StoredType{25, "I16", DType::kI16},
    StoredType{26, "I32", DType::kI32},
    StoredType{27, "I64", DType::kI64},
    StoredType{28, "F64", DType::kF64},
    StoredType{29, "IQ1_M", {}},
    StoredType{30, "BF16", DType::kBF16},
    StoredType{34, "TQ1_0", {}},
    StoredType{35, "TQ2_0", {}},
    StoredType{39, "MXFP4", DType::kMXFP4},
    StoredType{40, "NVFP4", std::nullopt},
};

// Bytes of one scalar; 0 for strings and arrays.
uint64_t scalar_bytes(GgufType type) {
  switch (type) {
    case GgufType::kU8:
    case GgufType::kI8:
    case GgufType::kBool:
      return 1;
    case GgufType::kU16:
    case GgufType::kI16:
      return 2;
    case GgufType::kU32:
    case GgufType::kI32:
    case GgufType::kF32:
      return 4;
    case GgufType::kU64:
    case GgufType::kI64:
    case GgufType::kF64:
      return 8;
    default:
      return 0;
  }
}

struct Extent {
  uint64_t begin;  // within the data section
  uint64_t end;
  std::string name;
};

// Reads one file in order: header, metadata, tensor table, then the tensors' places.
class GgufParser {
 public:
  GgufParser(std::span<const std::byte> bytes, const std::string& name)
      : bytes_(bytes), name_(name), reader_(bytes, name) {}

  void parse(std::map<std::string, GgufValue, std::less<>>& metadata, TensorMap& tensors) {
    read_magic();
    const auto num_tensors = reader_.read<uint64_t>("the tensor count");
    const auto num_keys = reader_.read<uint64_t>("the key count");
    check_count("tensors", num_tensors, kMaxTensors, kMinTensorBytes);
    check_count("keys", num_keys, kMaxKeys, kMinKeyBytes);
    for (uint64_t i = 0; i < num_keys; ++i) read_key(i, metadata);
    const uint64_t alignment = alignment_of(metadata);
    std::vector<Extent> extents;
    for (uint64_t i = 0; i < num_tensors; ++i) read_tensor(i, alignment, tensors, extents);
    if (num_tensors > 0) place_tensors(alignment, tensors, extents);
  }

 private:
  [[noreturn]] void fail(const std::string& problem) const { throw Error(format("{}: {}", name_, problem)); }

  void read_magic() {
    if (bytes_.size() < 4 || std::memcmp(bytes_.data(), "GGUF", 4) != 0) {
      if (const auto foreign = describe_foreign_file(bytes_, name_)) fail(*foreign);
      fail("not a GGUF file: the first four bytes are not \"GGUF\"");
    }
    reader_.take(4, "the magic");
    const auto version = reader_.read<uint32_t>("the version");
    if (version != 0 && (version & 0xFFFF) == 0)
      fail("this is a big-endian GGUF file: only little-endian ones are supported, convert it");
    if (version != 2 && version != 3) fail(format("unsupported GGUF version {}, expected 2 or 3", version));
  }

  void check_count(std::string_view what, uint64_t count, uint64_t limit, uint64_t least_bytes) const {
    if (count > reader_.left() / least_bytes)
      fail(format("declares {} {} but the file has only {} bytes left", count, what, reader_.left()));
    if (count > limit) fail(format("declares {} {}, more than the limit of {}", count, what, limit));
  }

  std::string_view read_string(const std::string& what, uint64_t limit) {
    const auto length = reader_.read<uint64_t>(what);
    if (length > reader_.left())
      fail(format("{} declares {} bytes but the file has only {} left", what, length, reader_.left()));
    if (length > limit) fail(format("{} has {} bytes, more than the limit of {}", what, length, limit));
    const auto text = reader_.take(length, what);
    return {reinterpret_cast<const char*>(text.data()), text.size()};
  }

  void read_key(uint64_t index, std::map<std::string, GgufValue, std::less<>>& metadata) {
    const std::string_view key = read_string(format("the name of key {}", index), kMaxKeyBytes);
    if (key.empty()) fail(format("key {} is empty", index));
    const std::string what = format("key {} \"{}\"", index, printable(key, 120));
    const GgufValue value = read_value(what);
    if (!metadata.emplace(key, value).second) fail(format("{} stands twice", what));
  }

  GgufType read_type(const std::string& what) {
    const auto id = reader_.read<uint32_t>(what);
    if (id > static_cast<uint32_t>(GgufType::kF64)) fail(format("{}: unknown value type {}", what, id));
    return static_cast<GgufType>(id);
  }

  GgufValue read_value(const std::string& what) {
    GgufValue value;
    value.type = read_type(what);
    uint64_t count = 1;
    if (value.type == GgufType::kArray) {
      value.is_array = true;
      value.type = read_type(what);
      if (value.type == GgufType::kArray) fail(format("{}: arrays of arrays are not supported", what));
      count = reader_.read<uint64_t>(what);
      const uint64_t least = std::max<uint64_t>(scalar_bytes(value.type), 1);
      if (count > reader_.left() / (value.type == GgufType::kString ? 8 : least))
        fail(format(
            "{} declares {} elements but the file has only {} bytes left", what, count, reader_.left()));
      if (count > kMaxArrayElements)
        fail(format("{} declares {} elements, more than the limit of {}", what, count, kMaxArrayElements));
    }
    value.count = static_cast<int64_t>(count);
    value.bytes = read_payload(what, value.type, count);
    return value;
  }

  std::span<const std::byte> read_payload(const std::string& what, GgufType type, uint64_t count) {
    const uint64_t begin = reader_.offset();
    if (type == GgufType::kString) {
      for (uint64_t i = 0; i < count; ++i) read_string(what, kMaxStringBytes);
      return bytes_.subspan(begin, reader_.offset() - begin);
    }
    const auto payload = reader_.take((CheckedSize(count) * scalar_bytes(type)).get(), what);
    if (type == GgufType::kBool)
      for (const std::byte element : payload)
        if (std::to_integer<int>(element) > 1)
          fail(format("{}: the bool value is {}, expected 0 or 1", what, std::to_integer<int>(element)));
    return payload;
  }

  uint64_t alignment_of(const std::map<std::string, GgufValue, std::less<>>& metadata) const {
    const auto at = metadata.find("general.alignment");
    if (at == metadata.end()) return 32;  // the format's default
    const GgufValue& value = at->second;
    uint32_t alignment = 0;
    if (value.type == GgufType::kU32 && !value.is_array)
      std::memcpy(&alignment, value.bytes.data(), sizeof alignment);
    if (!std::has_single_bit(alignment) || alignment > kMaxAlignment)
      fail(format("general.alignment must be a power of two <= {}, stored as u32", kMaxAlignment));
    return alignment;
  }

  void read_tensor(uint64_t index, uint64_t alignment, TensorMap& tensors, std::vector<Extent>& extents) {
    const std::string_view name = read_string(format("the name of tensor {}", index), kMaxTensorNameBytes);
    if (name.empty()) fail(format("the name of tensor {} is empty", index));
    const std::string what = format("tensor {} \"{}\"", index, printable(name));
    TensorView view;
    std::array<uint64_t, kMaxDims> dims{};
    const uint32_t num_dims = read_dims(what, dims);
    view.dtype = read_stored_type(what);
    for (uint32_t i = num_dims; i-- > 0;) view.shape.append(static_cast<int64_t>(dims[i]));
    const uint64_t size = bytes_of(what, view);
    const auto offset = reader_.read<uint64_t>(what);
    if (offset % alignment != 0)
      fail(format("{}: offset {} is not a multiple of the alignment {}", what, offset, alignment));
    if (offset > bytes_.size() || size > bytes_.size() - offset)
      fail(format("{}: {} bytes at offset {} reach past the end of the file: it is truncated or damaged",
          what, size, offset));
    if (!tensors.emplace(name, view).second) fail(format("{} stands twice", what));
    extents.push_back({offset, offset + size, std::string(name)});
  }

  uint32_t read_dims(const std::string& what, std::array<uint64_t, kMaxDims>& dims) {
    const auto num_dims = reader_.read<uint32_t>(what);
    if (num_dims < 1 || num_dims > kMaxDims)
      fail(format("{}: {} dimensions, expected 1 to {}", what, num_dims, kMaxDims));
    Checked<int64_t> elements = 1;
    for (uint32_t i = 0; i < num_dims; ++i) {
      dims[i] = reader_.read<uint64_t>(what);
      if (dims[i] == 0 || !std::in_range<int64_t>(dims[i]))
        fail(format(
            "{}: dimension {} is {}, expected a positive number", what, i, static_cast<int64_t>(dims[i])));
      try {
        elements *= dims[i];
      } catch (const Error&) {
        fail(format("{}: the product of its dimensions overflows 63 bits", what));
      }
    }
    return num_dims;
  }

  DType read_stored_type(const std::string& what) {
    const auto id = reader_.read<uint32_t>(what);
    const auto at = std::find_if(
        kStoredTypes.begin(), kStoredTypes.end(), [&](const StoredType& type) { return type.id == id; });
    if (at == kStoredTypes.end()) fail(format("{}: unknown or removed tensor type {}", what, id));
    if (!at->dtype)
      fail(
          format("{}: tensor type {} is not supported; supported are F32, F16, BF16, Q8_0, Q4_0, Q4_1, Q5_0, "
                 "Q5_1, Q4_K, Q5_K, Q6_K and MXFP4",
              what, at->name));
    return *at->dtype;
  }

  uint64_t bytes_of(const std::string& what, const TensorView& view) const {
    const DTypeTraits& traits = traits_of(view.dtype);
    if (view.shape.back() % traits.block_elements != 0)
      fail(format("{}: rows of {} elements are not a multiple of the {} elements of a {} block", what,
          view.shape.back(), traits.block_elements, traits.name));
    try {
      const auto blocks = Checked<int64_t>(view.shape.elements() / traits.block_elements);
      return static_cast<uint64_t>((blocks * Checked<int64_t>(traits.block_bytes)).get());
    } catch (const Error&) {
      fail(format("{}: its size in bytes overflows 63 bits", what));
    }
  }

  void place_tensors(uint64_t alignment, TensorMap& tensors, std::vector<Extent>& extents) const {
    const uint64_t start = CheckedSize(reader_.offset()).aligned_to(alignment).get();
    const uint64_t data_bytes = start > bytes_.size() ? 0 : bytes_.size() - start;
    std::sort(
        extents.begin(), extents.end(), [](const Extent& a, const Extent& b) { return a.begin < b.begin; });
    uint64_t previous_end = 0;
    for (const Extent& extent : extents) {
      if (extent.begin < previous_end)
        fail(format("tensor \"{}\" at offset {} overlaps the one before it, which ends at {}",
            printable(extent.name), extent.begin, previous_end));
      if (extent.end > data_bytes)
        fail(format("tensor \"{}\" ends at byte {} of the data but the file has only {}: it is truncated",
            printable(extent.name), extent.end, data_bytes));
      tensors.find(extent.name)->second.data = bytes_.data() + start + extent.begin;
      previous_end = extent.end;
    }
  }

  std::span<const std::byte> bytes_;
  const std::string& name_;
  ByteReader reader_;
};

}  // namespace

GgufFile GgufFile::parse(std::span<const std::byte> bytes, const std::string& name) {
  GgufFile file;
  file.name_ = name;
  GgufParser(bytes, name).parse(file.metadata_, file.tensors_);
  return file;
}

}  // namespace cheetah
