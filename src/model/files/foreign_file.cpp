// SPDX-License-Identifier: MIT
#include "model/files/foreign_file.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstring>

namespace cheetah {
namespace {

struct Signature {
  std::string_view start;
  std::string_view sentence;
};

using namespace std::string_view_literals;

constexpr std::array kSignatures = {
    Signature{"version https://git-lfs"sv,
        "this is a git-lfs pointer, not the file itself: run git lfs pull in its repository"sv},
    Signature{"PK\x03\x04"sv,
        "this is a zip archive or a PyTorch pickle, which can execute code: convert it to safetensors"sv},
    Signature{"\x80\x02"sv, "this is a PyTorch pickle, which can execute code: convert it to safetensors"sv},
    Signature{"\x80\x03"sv, "this is a PyTorch pickle, which can execute code: convert it to safetensors"sv},
    Signature{"\x80\x04"sv, "this is a PyTorch pickle, which can execute code: convert it to safetensors"sv},
    Signature{"\x80\x05"sv, "this is a PyTorch pickle, which can execute code: convert it to safetensors"sv},
    Signature{"\x89HDF\r\n\x1a\n"sv, "this is an HDF5 (Keras) file: convert it to safetensors"sv},
    Signature{"\x93NUMPY"sv, "this is a NumPy array: convert it to safetensors"sv},
    Signature{"ggml"sv, "this is an old GGML file: convert it to GGUF"sv},
    Signature{"lmgg"sv, "this is an old GGML file: convert it to GGUF"sv},
    Signature{"tjgg"sv, "this is an old GGML file: convert it to GGUF"sv},
    Signature{"fmgg"sv, "this is an old GGML file: convert it to GGUF"sv},
    Signature{"\x1f\x8b"sv, "this is a gzip archive: unpack it first"sv},
    Signature{"\x28\xb5\x2f\xfd"sv, "this is a zstd archive: unpack it first"sv},
    Signature{"\x7f"
              "ELF"sv,
        "this is a program, not a model"sv},
};

bool starts_with_html(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t\r\n\xef\xbb\xbf");
  if (first == std::string_view::npos) return false;
  std::string head(text.substr(first, 14));
  std::transform(head.begin(), head.end(), head.begin(),
      [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return head.starts_with("<!doctype html") || head.starts_with("<html") || head.starts_with("<?xml");
}

// An ONNX file is a protobuf whose first field is the small ir_version and whose second is the producer.
bool looks_like_onnx(std::string_view text) {
  return text.size() > 3 && text[0] == '\x08' && text[1] > 0 && text[1] < 32 && text[2] == '\x12';
}

}  // namespace

std::optional<std::string> describe_foreign_file(std::span<const std::byte> bytes, std::string_view path) {
  const std::string_view text(
      reinterpret_cast<const char*>(bytes.data()), std::min<size_t>(bytes.size(), 512));
  if (path.ends_with(".incomplete") || path.ends_with(".part") || path.ends_with(".crdownload"))
    return "this is an unfinished download: let it finish or download it again";
  if (text.empty()) return "the file is empty: download it again";
  for (const Signature& signature : kSignatures)
    if (text.starts_with(signature.start)) return std::string(signature.sentence);
  if (starts_with_html(text))
    return "this is a web page (perhaps a login or error page) saved under a model's name: download it again";
  if (text.front() == '{') return "this is JSON text, not weights: give the directory it belongs to";
  if (looks_like_onnx(text) || path.ends_with(".onnx"))
    return "this is an ONNX graph: get the model as safetensors or GGUF";
  return std::nullopt;
}

}  // namespace cheetah
