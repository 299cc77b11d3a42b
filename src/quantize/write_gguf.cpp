// SPDX-License-Identifier: MIT
#include "quantize/write_gguf.h"

#include <algorithm>
#include <atomic>
#include <cmath>

#include "base/error.h"
#include "base/format.h"
#include "kernels/quant/quant.h"

namespace cheetah {
namespace {

using Role = GgufTensorSource::Role;

// Room for the evaluation in the metadata, spaces until it is known.
constexpr int64_t kEvaluationBytes = 4096;
constexpr const char* kEvaluationKey = "cheetah.evaluation";

// What llama.cpp takes where rows are no whole number of the wanted blocks.
DType fitting(DType wanted, int64_t cols) {
  if (cols % traits_of(wanted).block_elements == 0) return wanted;
  DType next = DType::kF16;
  if (wanted == DType::kQ4_K) next = DType::kQ5_0;
  if (wanted == DType::kQ5_K) next = DType::kQ5_1;
  if (wanted == DType::kQ6_K) next = DType::kQ8_0;
  return cols % traits_of(next).block_elements == 0 ? next : DType::kF16;
}

DType type_of(const GgufTensorSource& tensor, DType wanted) {
  const int64_t cols = tensor.shape.back();
  const bool narrow = traits_of(wanted).block_elements > 1;
  switch (tensor.role) {
    case Role::kPlain:
      return DType::kF32;
    case Role::kMatrix:
      return fitting(wanted, cols);
    case Role::kEmbedding:
    case Role::kOutput:
      break;
  }
  // Tables are worth more bits: every token goes through the output's, which often is the embedding's.
  if (!narrow || wanted == DType::kQ8_0) return fitting(wanted, cols);
  return fitting(DType::kQ6_K, cols);
}

// Row `row` of a tensor whose heads' rows become interleaved rotary pairs.
int64_t paired_row(int64_t row, int64_t heads, int64_t rows) {
  const int64_t size = rows / heads, head = row / size, at = row % size;
  return head * size + at / 2 + at % 2 * (size / 2);
}

class GgufWriter {
 public:
  GgufWriter(const SourceModel& source, const TargetFormat& format, Preparation* preparation)
      : source_(source), format_(format), preparation_(preparation), model_(describe_gguf(source)) {
    model_.metadata.count("general.file_type", gguf_file_type(format.dtype));
    model_.metadata.text(kEvaluationKey, std::string(kEvaluationBytes, ' '));
    std::ranges::stable_sort(model_.tensors, {}, [&](const GgufTensorSource& tensor) {
      return tensor.parts.empty() ? -1 : source.layer_of(tensor.parts.front());
    });
    for (const GgufTensorSource& tensor : model_.tensors)
      plans_.push_back({.name = tensor.name, .dtype = type_of(tensor, format.dtype), .shape = tensor.shape});
  }

  WriteReport run(const std::string& path, const std::string& key, const WriteHooks& hooks,
      const EvaluateFile& evaluate) {
    FilePlan plan = plan_gguf(model_.metadata, plans_);
    report_.bytes = plan.total_bytes;
    const int64_t room = evaluation_place(plan.header);
    PlannedFile file(path, std::move(plan), key);
    report_.resumed = file.num_written();
    if (hooks.begin) hooks.begin(std::ssize(plans_) - report_.resumed);
    for (size_t i = 0; i < plans_.size(); ++i) {
      (model_.tensors[i].role == Role::kMatrix ? report_.quantized : report_.kept) += 1;
      if (file.is_written(plans_[i].name)) continue;
      write(model_.tensors[i], plans_[i], file);
      if (hooks.tensor) hooks.tensor();
    }
    const std::string evaluation = evaluate(file.partial_path());
    if (std::ssize(evaluation) > kEvaluationBytes)
      throw Error(cheetah::format(
          "the evaluation takes {} bytes, more than its room of {}", evaluation.size(), kEvaluationBytes));
    file.patch(room, evaluation);
    file.finish();
    note_types();
    return std::move(report_);
  }

 private:
  static int64_t evaluation_place(const std::string& header) {
    const size_t key = header.rfind(kEvaluationKey);
    CHEETAH_ASSERT(key != std::string::npos, "the key was put");
    return static_cast<int64_t>(key + std::string_view(kEvaluationKey).size()) + 4 + 8;  // type, length
  }

  void write(const GgufTensorSource& tensor, const GgufTensorPlan& plan, PlannedFile& file) {
    const int64_t cols = tensor.shape.back();
    if (tensor.parts.empty()) {
      file.write(tensor.name, std::as_bytes(std::span(tensor.numbers)));
      return;
    }
    std::vector<float> importance;
    if (tensor.linear && preparation_) {
      preparation_->prepare(tensor.linear->layer);
      const Moments* moments = preparation_->moments(*tensor.linear);
      if (moments && moments->seen()) importance = moments->importance();
    }
    int64_t at = 0;
    for (const std::string& part : tensor.parts) {
      const TensorView& view = source_.tensor(part);
      if (view.cols() != cols)
        throw Error(cheetah::format("{}: \"{}\" is {}, expected rows of {}", source_.path(),
            printable(part, 200), view.shape.text(), cols));
      for (const Slice& slice : slices(tensor, view)) {
        const std::vector<std::byte> bytes = convert(tensor, plan.dtype, part, slice, importance);
        file.write_part(tensor.name, at, bytes);
        at += std::ssize(bytes);
      }
    }
    file.note_written(tensor.name);
  }

  struct Slice {
    int64_t first = 0;  // rows of the part
    int64_t rows = 0;
  };

  // Of tensors that hold several experts, the rows wanted of each; large ones in pieces of bounded memory.
  static std::vector<Slice> slices(const GgufTensorSource& tensor, const TensorView& view) {
    constexpr int64_t kMostNumbers = int64_t{1} << 26;
    const int64_t most = std::max<int64_t>(1, kMostNumbers / view.cols());
    const int64_t per_matrix = view.shape.rank() > 2 ? view.shape[1] : view.rows();
    const int64_t wanted = tensor.rows > 0 ? tensor.rows : per_matrix;
    std::vector<Slice> all;
    for (int64_t matrix = 0; matrix < view.rows(); matrix += per_matrix)
      for (int64_t row = 0; row < wanted; row += most)
        all.push_back({matrix + tensor.first_row + row, std::min(most, wanted - row)});
    return all;
  }

  std::vector<std::byte> convert(const GgufTensorSource& tensor, DType dtype, const std::string& part,
      const Slice& slice, const std::vector<float>& importance) const {
    // A vector is one row of numbers; of a bias of paired heads the numbers change places instead.
    const TensorView& view = source_.tensor(part);
    const int64_t cols = view.cols(), stride = row_bytes(dtype, cols);
    std::vector<std::byte> bytes(static_cast<size_t>(slice.rows * stride));
    const bool is_vector = view.shape.rank() == 1;
    std::atomic<bool> finite{true};
    source_.pool().parallel_for(slice.rows, 8, [&](int64_t begin, int64_t end, int) {
      std::vector<float> row(static_cast<size_t>(cols)), moved;
      for (int64_t r = begin; r < end; ++r) {
        int64_t from = slice.first + r;
        if (tensor.paired_heads > 0 && !is_vector) from = paired_row(from, tensor.paired_heads, view.rows());
        source_.read_row(part, from, row.data());
        if (tensor.paired_heads > 0 && is_vector) {
          moved = row;
          for (int64_t c = 0; c < cols; ++c)
            row[static_cast<size_t>(c)] =
                moved[static_cast<size_t>(paired_row(c, tensor.paired_heads, cols))];
        }
        if (!std::ranges::all_of(row, [](float x) { return std::isfinite(x); })) finite = false;
        quantize_row(dtype, row.data(), bytes.data() + r * stride, cols,
            importance.empty() ? nullptr : importance.data());
      }
    });
    if (!finite)
      throw Error(cheetah::format("{}: \"{}\" holds numbers that are not finite: the file is damaged",
          source_.path(), printable(part, 200)));
    return bytes;
  }

  void note_types() {
    std::map<DType, int64_t> others;
    for (size_t i = 0; i < plans_.size(); ++i)
      if (model_.tensors[i].role == Role::kMatrix && plans_[i].dtype != format_.dtype)
        ++others[plans_[i].dtype];
    for (const auto& [dtype, count] : others)
      report_.notes.push_back(
          cheetah::format("{} matrices are {}: their rows are no whole number of {} blocks", count,
              name_of(dtype), name_of(format_.dtype)));
  }

  const SourceModel& source_;
  const TargetFormat& format_;
  Preparation* preparation_;
  GgufModel model_;
  std::vector<GgufTensorPlan> plans_;
  WriteReport report_;
};

}  // namespace

WriteReport write_gguf(const SourceModel& source, const TargetFormat& format, const std::string& path,
    const std::string& key, Preparation* preparation, const WriteHooks& hooks, const EvaluateFile& evaluate) {
  return GgufWriter(source, format, preparation).run(path, key, hooks, evaluate);
}

}  // namespace cheetah
