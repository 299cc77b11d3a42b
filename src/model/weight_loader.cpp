// SPDX-License-Identifier: MIT
#include "model/weight_loader.h"

#include <algorithm>
#include <cmath>
#include <mutex>
#include <numeric>

#include "base/error.h"
#include "base/format.h"
#include "kernels/quant/quant.h"
#include "tensor/float16.h"

namespace cheetah {
namespace {

constexpr int64_t kMaxListed = 10;

int64_t total_bytes(const TensorMap& tensors) {
  int64_t total = 0;
  for (const auto& [name, view] : tensors) total += view.bytes();
  return total;
}

// Types a kernel can read in place.
bool usable(DType dtype) {
  return is_quantized(dtype) || dtype == DType::kF32 || dtype == DType::kF16 || dtype == DType::kBF16;
}

bool aligned(const TensorView& view) {
  const auto address = reinterpret_cast<uintptr_t>(view.data);
  if (is_quantized(view.dtype)) return true;  // blocks are read byte by byte
  return address % static_cast<uintptr_t>(traits_of(view.dtype).block_bytes) == 0;
}

WeightMatrix as_matrix(const TensorView& view) {
  return {.dtype = view.dtype, .rows = view.rows(), .cols = view.cols(), .data = view.data};
}

}  // namespace

WeightLoader::WeightLoader(
    const WeightSource& source, const LoadOptions& options, ThreadPool& pool, ModelWeights& into)
    : source_(source),
      options_(options),
      pool_(pool),
      into_(into),
      total_bytes_(total_bytes(source.tensors)),
      progress_("loading", total_bytes_),
      has_fp8_(std::ranges::any_of(
          source.tensors, [](const auto& tensor) { return tensor.second.dtype == DType::kF8E4M3; })) {}

void WeightLoader::problem(std::string line) {
  if (num_problems_++ < kMaxListed) problems_.push_back(std::move(line));
}

const TensorView* WeightLoader::take(const std::string& name, const Shape& expected) {
  const auto at = source_.tensors.find(name);
  if (at == source_.tensors.end()) {
    problem(format("missing \"{}\" {}", name, expected.text()));
    return nullptr;
  }
  used_.insert(name);
  if (at->second.shape != expected) {
    problem(format("\"{}\" is {}, expected {}", name, at->second.shape.text(), expected.text()));
    return nullptr;
  }
  return &at->second;
}

std::byte* WeightLoader::own(int64_t bytes) { return into_.owned.take(bytes); }

void WeightLoader::keep_together(const std::string& name, int64_t numbers) {
  const auto at = source_.tensors.find(name);
  if (at == source_.tensors.end() || wants_fp8()) return;
  if (usable(at->second.dtype) && options_.dtype.value_or(at->second.dtype) == at->second.dtype) return;
  const DTypeTraits& type = traits_of(options_.dtype.value_or(DType::kBF16));  // FP8 is decoded to BF16
  into_.owned.keep_together((numbers + type.block_elements - 1) / type.block_elements * type.block_bytes);
}

DType WeightLoader::fitting(DType wanted, int64_t cols) {
  DType result = wanted;
  if (cols % traits_of(result).block_elements != 0) result = DType::kQ8_0;
  if (cols % traits_of(result).block_elements != 0) result = DType::kF16;
  if (result != wanted) {
    const std::string note = format("rows of {} numbers are no whole number of {} blocks: stored as {}", cols,
        name_of(wanted), name_of(result));
    if (noted_.insert(note).second) into_.notes.push_back(note);
  }
  return result;
}

WeightMatrix WeightLoader::convert(const TensorView& view, DType target) {
  const int64_t rows = view.rows(), cols = view.cols(), stride = row_bytes(target, cols);
  std::byte* data = own(rows * stride);
  pool_.parallel_for(rows, 16, [&](int64_t begin, int64_t end, int) {
    std::vector<float> row(static_cast<size_t>(cols));
    for (int64_t r = begin; r < end; ++r) {
      dequantize_row(view.dtype, view.row(r), row.data(), cols);
      quantize_row(target, row.data(), data + r * stride, cols);
    }
  });
  return {.dtype = target, .rows = rows, .cols = cols, .data = data};
}

// Reads a byte of each page, so that the disk's time is spent here, under the progress bar, on all threads.
void WeightLoader::touch(const TensorView& view) {
  constexpr int64_t kPage = 4096;
  const int64_t pages = view.bytes() / kPage;
  pool_.parallel_for(pages, 256, [&](int64_t begin, int64_t end, int) {
    for (int64_t page = begin; page < end; ++page)
      static_cast<void>(*static_cast<const volatile std::byte*>(view.data + page * kPage));
  });
}

void WeightLoader::was_read(const TensorView& view) {
  read_bytes_ += view.bytes();
  if (options_.show_progress) progress_.advance(view.bytes());
  if (options_.on_progress) options_.on_progress(std::min(read_bytes_, total_bytes_), total_bytes_);
}

TensorView WeightLoader::as_usable(const TensorView& view) {
  if (usable(view.dtype) && aligned(view)) return view;
  switch (view.dtype) {
    case DType::kF32:
    case DType::kF16:
    case DType::kBF16: {
      std::byte* data = own(view.bytes());
      std::memcpy(data, view.data, static_cast<size_t>(view.bytes()));
      return {.dtype = view.dtype, .shape = view.shape, .data = data};
    }
    case DType::kF64:
      return {.dtype = DType::kF32, .shape = view.shape, .data = convert(view, DType::kF32).data};
    case DType::kF8E4M3:
    case DType::kF8E5M2:
      return {.dtype = DType::kBF16, .shape = view.shape, .data = convert(view, DType::kBF16).data};
    default:
      throw Error(format("{}: a weight is stored as {}, expected a floating-point or GGUF block type",
          source_.what, name_of(view.dtype)));
  }
}

WeightMatrix WeightLoader::prepare(const TensorView& view, bool keep_type) {
  const TensorView stored = as_usable(view);
  touch(stored);
  was_read(view);
  if (keep_type || keeps_others() || !options_.dtype || *options_.dtype == stored.dtype)
    return as_matrix(stored);
  if (wants_fp8()) return narrowed(stored);
  const DType target = fitting(*options_.dtype, stored.cols());
  return target == stored.dtype ? as_matrix(stored) : convert(stored, target);
}

WeightMatrix WeightLoader::matrix(const std::string& name, int64_t rows, int64_t cols) {
  const TensorView* view = take(name, {rows, cols});
  if (!view) return {};
  const WeightScales scales = take_scales(name, *view);
  if (!wants_fp8() || view->dtype != DType::kF8E4M3) return prepare(decoded(*view, scales), false);
  touch(*view);
  was_read(*view);
  WeightMatrix kept = as_matrix(*view);
  kept.scales = scales;
  return kept;
}

WeightMatrix WeightLoader::unscaled(const std::string& name, int64_t rows, int64_t cols) {
  const TensorView* view = take(name, {rows, cols});
  return view ? prepare(decoded(name, *view), wants_fp8()) : WeightMatrix{};
}

WeightMatrix WeightLoader::table(const std::string& name, int64_t rows, int64_t cols) {
  const TensorView* view = take(name, {rows, cols});
  return view ? prepare(decoded(name, *view), true) : WeightMatrix{};
}

std::vector<WeightMatrix> WeightLoader::matrices(
    const std::string& name, int64_t count, int64_t rows, int64_t cols) {
  std::vector<WeightMatrix> result(static_cast<size_t>(count));
  const TensorView* view = take(name, {count, rows, cols});
  if (!view) return result;
  const WeightMatrix all = prepare(*view, false);
  for (int64_t i = 0; i < count; ++i) result[static_cast<size_t>(i)] = rows_of(all, i * rows, rows);
  return result;
}

WeightMatrix WeightLoader::transposed(const std::string& name, int64_t rows, int64_t cols) {
  const TensorView* view = take(name, {cols, rows});
  return view ? transpose(*view, rows, 0, 1) : WeightMatrix{};
}

WeightMatrix WeightLoader::transpose(const TensorView& view, int64_t rows, int64_t first, int64_t step) {
  constexpr int64_t kBand = 16;  // output rows written together, so that a cache line read is used whole
  const TensorView source = as_usable(view);
  if (is_quantized(source.dtype))
    throw Error(format("{}: a {} matrix cannot be transposed", source_.what, name_of(source.dtype)));
  const int64_t cols = source.rows(), size = traits_of(source.dtype).block_bytes;
  std::byte* data = own(rows * cols * size);
  pool_.parallel_for(rows, kBand, [&](int64_t begin, int64_t end, int) {
    for (int64_t c = 0; c < cols; ++c)
      for (int64_t r = begin; r < end; ++r)
        std::memcpy(data + (r * cols + c) * size, source.row(c) + (first + r * step) * size,
            static_cast<size_t>(size));
  });
  const TensorView result{.dtype = source.dtype, .shape = {rows, cols}, .data = data};
  return prepare(result, false);
}

WeightMatrix WeightLoader::parted(const std::string& name, const HeadParts& parts, int64_t cols) {
  const int64_t rows = parts.total();
  const TensorView* view = take(name, {rows, cols});
  if (!view) return {};
  const TensorView source = as_usable(decoded(name, *view));
  const int64_t bytes = row_bytes(source.dtype, cols);
  std::byte* data = own(rows * bytes);
  pool_.parallel_for(rows, 16, [&](int64_t begin, int64_t end, int) {
    for (int64_t r = begin; r < end; ++r)
      std::memcpy(data + r * bytes, source.row(parts.stored(r)), static_cast<size_t>(bytes));
  });
  return prepare({.dtype = source.dtype, .shape = {rows, cols}, .data = data}, wants_fp8());
}

const float* WeightLoader::parted_vector(const std::string& name, const HeadParts& parts) {
  const int64_t count = parts.total();
  const float* source = vector(name, {count});
  if (!source) return nullptr;
  auto* data = reinterpret_cast<float*>(own(count * static_cast<int64_t>(sizeof(float))));
  for (int64_t i = 0; i < count; ++i) data[i] = source[parts.stored(i)];
  return data;
}

const float* WeightLoader::vector(const std::string& name, const Shape& shape) {
  const TensorView* view = take(name, shape);
  if (!view) return nullptr;
  const TensorView stored = as_usable(*view);
  was_read(*view);
  const std::byte* data = stored.dtype == DType::kF32 ? stored.data : convert(stored, DType::kF32).data;
  return reinterpret_cast<const float*>(data);
}

void WeightLoader::finish(const std::vector<std::string>& ignored) {
  for (const auto& [name, view] : source_.tensors) {
    const bool expected =
        used_.contains(name) || std::ranges::any_of(ignored, [&name = name](const std::string& part) {
          return name.find(part) != std::string::npos;
        });
    if (!expected) problem(format("unexpected \"{}\" {}", printable(name), view.shape.text()));
  }
  if (problems_.empty()) return;
  std::string message = format("{}: the tensors do not fit the configuration: ", source_.what);
  for (size_t i = 0; i < problems_.size(); ++i) message += (i ? "; " : "") + problems_[i];
  if (num_problems_ > kMaxListed) message += format("; and {} more", num_problems_ - kMaxListed);
  throw Error(message);
}

}  // namespace cheetah
