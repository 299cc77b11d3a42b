// SPDX-License-Identifier: MIT
#include "quantize/write_directory.h"

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "base/format.h"
#include "kernels/quant/quant.h"

namespace cheetah {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kMostCopied = int64_t{128} << 20;

struct Work {
  std::string name;  // of the source's tensor
  int64_t layer = -1;
  const LinearTensor* linear = nullptr;  // nullptr: kept
  std::vector<PlannedTensor> outputs = {};
};

// The type in which a tensor that is not quantized is written.
DType kept_type(const TargetFormat& format, const TensorView& view) {
  const bool changes = view.shape.rank() >= 2 || format.dtype == DType::kF32;
  if (format.layout == Layout::kPlain && changes) return format.dtype;
  if (is_quantized(view.dtype) || view.dtype == DType::kF8E4M3 || view.dtype == DType::kF8E5M2)
    return DType::kBF16;
  return view.dtype == DType::kF64 ? DType::kF32 : view.dtype;
}

std::vector<Work> plan_work(
    const SourceModel& source, const TargetFormat& format, const LinearEncoder& encoder) {
  std::vector<Work> all;
  for (const auto& [name, view] : source.tensors()) {
    if (source.is_companion(name)) continue;
    Work work{.name = name, .layer = source.layer_of(name), .linear = source.linear(name), .outputs = {}};
    if (work.linear && (format.layout == Layout::kPlain || !encoder.fits(*work.linear)))
      work.linear = nullptr;
    work.outputs = work.linear ? encoder.plan(*work.linear)
                               : std::vector<PlannedTensor>{{name, kept_type(format, view), view.shape}};
    all.push_back(std::move(work));
  }
  std::ranges::stable_sort(all, {}, &Work::layer);
  return all;
}

// Types with the largest elements first, so that every tensor is aligned without gaps.
FilePlan plan_file(const std::vector<Work>& all) {
  std::vector<const PlannedTensor*> tensors;
  for (const Work& work : all)
    for (const PlannedTensor& tensor : work.outputs) tensors.push_back(&tensor);
  std::ranges::stable_sort(tensors, [](const PlannedTensor* a, const PlannedTensor* b) {
    const int64_t left = traits_of(a->dtype).block_bytes, right = traits_of(b->dtype).block_bytes;
    return left != right ? left > right : a->name < b->name;
  });
  FilePlan plan;
  Json header = {{"__metadata__", {{"format", "pt"}}}};
  int64_t at = 0;
  for (const PlannedTensor* tensor : tensors) {
    Json shape = Json::array();
    for (int axis = 0; axis < tensor->shape.rank(); ++axis) shape.push_back(tensor->shape[axis]);
    header[tensor->name] = {
        {"dtype", name_of(tensor->dtype)}, {"shape", shape}, {"data_offsets", {at, at + tensor->bytes()}}};
    plan.pieces[tensor->name] = {.offset = at, .bytes = tensor->bytes()};
    at += tensor->bytes();
  }
  std::string text = dump_json(header);
  text.resize((text.size() + 7) / 8 * 8, ' ');
  const auto length = static_cast<uint64_t>(text.size());
  plan.header.assign(reinterpret_cast<const char*>(&length), sizeof length);
  plan.header += text;
  for (auto& [name, piece] : plan.pieces) piece.offset += std::ssize(plan.header);
  plan.total_bytes = std::ssize(plan.header) + at;
  return plan;
}

class DirectoryWriter {
 public:
  DirectoryWriter(
      const SourceModel& source, const TargetFormat& format, int64_t group, Preparation* preparation)
      : source_(source),
        encoder_(source, format, group),
        preparation_(preparation),
        work_(plan_work(source, format, encoder_)) {}

  WriteReport run(const std::string& folder, const std::string& key, const WriteHooks& hooks) {
    FilePlan plan = plan_file(work_);
    report_.bytes = plan.total_bytes;
    PlannedFile file((fs::path(folder) / "model.safetensors").string(), std::move(plan),
        format("{} group {}", key, encoder_.group()));
    const auto is_done = [&](const Work& work) {
      return std::ranges::all_of(
          work.outputs, [&](const PlannedTensor& tensor) { return file.is_written(tensor.name); });
    };
    report_.resumed = std::ranges::count_if(work_, is_done);
    if (hooks.begin) hooks.begin(std::ssize(work_) - report_.resumed);
    for (const Work& work : work_) {
      (work.linear ? report_.quantized : report_.kept) += 1;
      if (is_done(work)) continue;
      if (preparation_ && work.layer >= 0) preparation_->prepare(work.layer);
      write(work, file);
      if (hooks.tensor) hooks.tensor();
    }
    file.finish();
    note_kept();
    return std::move(report_);
  }

  Json quantization_config() const { return encoder_.quantization_config(); }

 private:
  void write(const Work& work, PlannedFile& file) const {
    const TensorView& view = source_.tensor(work.name);
    const TensorEdit* edit = preparation_ ? preparation_->edit(work.name) : nullptr;
    if (!work.linear && !edit && view.dtype == work.outputs.front().dtype) {
      file.write(work.name, std::span(view.data, static_cast<size_t>(view.bytes())));
      return;
    }
    std::vector<float> numbers = source_.read(work.name);
    if (edit) edit->apply(numbers, view.cols());
    if (!work.linear) {
      write_plain(work.outputs.front(), numbers, view.cols(), file);
      return;
    }
    const Moments* moments = preparation_ ? preparation_->moments(*work.linear) : nullptr;
    const std::vector<OwnedTensor> tensors = encoder_.encode(*work.linear, std::move(numbers), moments);
    for (const OwnedTensor& tensor : tensors) file.write(tensor.name, tensor.data);
  }

  static void write_plain(
      const PlannedTensor& planned, const std::vector<float>& numbers, int64_t cols, PlannedFile& file) {
    std::vector<std::byte> bytes(static_cast<size_t>(planned.bytes()));
    const int64_t stride = row_bytes(planned.dtype, cols);
    for (int64_t r = 0; r * cols < std::ssize(numbers); ++r)
      quantize_row(planned.dtype, numbers.data() + r * cols, bytes.data() + r * stride, cols);
    file.write(planned.name, bytes);
  }

  void note_kept() {
    int64_t experts = 0, unfit = 0;
    for (const Work& work : work_) {
      if (work.linear) continue;
      experts += source_.tensor(work.name).shape.rank() == 3;
      unfit += source_.linear(work.name) != nullptr;
    }
    if (experts > 0 && report_.quantized > 0)
      report_.notes.push_back(format(
          "{} tensors that hold all experts of a layer keep their type: quantize those to GGUF", experts));
    if (unfit > 0 && report_.quantized > 0)
      report_.notes.push_back(
          format("{} matrices keep their type: the layout cannot hold their sizes", unfit));
  }

  const SourceModel& source_;
  LinearEncoder encoder_;
  Preparation* preparation_;
  std::vector<Work> work_;
  WriteReport report_;
};

// The tokenizer, the chat template and what else lies beside the weights; not what describes other weights.
void copy_small_files(const SourceModel& source, const std::string& folder) {
  const fs::path from = source.path();
  if (!fs::is_directory(from)) return;
  for (const fs::directory_entry& entry : fs::directory_iterator(from)) {
    const std::string name = entry.path().filename().string();
    const bool left_out = name.ends_with(".safetensors") || name.ends_with(".index.json") ||
                          name.ends_with(".bin") || name.ends_with(".gguf") || name == "config.json" ||
                          name == "golden.json" || name == "cheetah_evaluation.json";
    std::error_code error;
    if (left_out || !entry.is_regular_file(error) || entry.file_size(error) > kMostCopied || error) continue;
    fs::copy_file(entry.path(), fs::path(folder) / name, fs::copy_options::overwrite_existing, error);
    if (error) throw Error(format("{}/{}: cannot be written: {}", folder, name, error.message()));
  }
}

}  // namespace

WriteReport write_directory(const SourceModel& source, const TargetFormat& format, int64_t group,
    const std::string& folder, const std::string& key, Preparation* preparation, const WriteHooks& hooks) {
  if (source.checkpoint().gguf())
    throw UsageError(cheetah::format(
        "--to {} writes a folder for Hugging Face's tools, which needs such a folder as source: {} is a GGUF file",
        format.name, source.path()));
  if (source.family().names.transposed && format.layout != Layout::kPlain)
    throw Error(cheetah::format("{}: {} stores its matrices transposed, which --to {} has no layout for",
        source.path(), source.family().traits.family, format.name));
  DirectoryWriter writer(source, format, group, preparation);
  WriteReport report = writer.run(folder, key, hooks);
  Json config = source.checkpoint().config();
  config.erase("quantization_config");
  if (Json quantization = writer.quantization_config(); !quantization.is_null())
    config["quantization_config"] = std::move(quantization);
  copy_small_files(source, folder);
  write_atomically((fs::path(folder) / "config.json").string(), dump_json(config, 2) + "\n");
  return report;
}

}  // namespace cheetah
