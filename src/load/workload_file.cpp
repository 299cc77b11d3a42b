// SPDX-License-Identifier: MIT
#include <fstream>

#include "base/error.h"
#include "base/format.h"
#include "load/workload.h"

namespace cheetah {
namespace {

constexpr uint64_t kBlockId = uint64_t{3} << 58;  // apart from the ids workload.cpp gives
constexpr int64_t kBlockTokens = 512;             // of the Mooncake traces
constexpr int64_t kMostTokens = int64_t{1} << 22;
constexpr int64_t kMostLines = 10'000'000;
constexpr JsonLimits kLineLimits{.max_bytes = int64_t{16} << 20, .max_depth = 64};

// Blocks are cut to the prompt's length; what no block covers is a text of the line's own.
std::vector<TextPiece> pieces_of(const JsonFields& line, int64_t number) {
  int64_t left = line.integer(line.has("input_length") ? "input_length" : "prompt_tokens", 1, kMostTokens);
  std::vector<TextPiece> pieces;
  if (const Json* ids = line.find("hash_ids")) {
    if (!ids->is_array()) throw Error(line.what() + ": hash_ids: expected an array of numbers");
    for (const Json& id : *ids) {
      if (!id.is_number_integer())
        throw Error(line.what() + ": hash_ids: expected an array of whole numbers");
      if (left == 0) break;
      const int64_t tokens = std::min(left, kBlockTokens);
      pieces.push_back({kBlockId + static_cast<uint32_t>(id.get<int64_t>()), tokens});
      left -= tokens;
    }
  }
  if (left > 0) pieces.push_back({static_cast<uint64_t>(number), left});
  return pieces;
}

int64_t output_of(const JsonFields& line, int64_t fallback) {
  for (const char* name : {"output_length", "output_tokens", "max_tokens", "max_completion_tokens"})
    if (line.has(name)) return line.integer(name, 1, kMostTokens);
  return fallback;
}

RequestShape shape_of(const JsonFields& line, int64_t number, int64_t default_output_tokens) {
  RequestShape shape;
  if (const Json* messages = line.find("messages")) {
    if (!messages->is_array() || messages->empty())
      throw Error(line.what() + ": messages: expected an array with at least one message");
    shape.messages = *messages;
  } else if (line.has("prompt")) {
    shape.prompt = line.string("prompt");
  } else if (line.has("input_length") || line.has("prompt_tokens")) {
    shape.pieces = pieces_of(line, number);
  } else {
    throw Error(line.what() + ": expected \"prompt\", \"messages\" or \"input_length\"");
  }
  shape.output_tokens = output_of(line, default_output_tokens);
  if (line.has("timestamp")) shape.arrival_s = line.number("timestamp") / 1e3;
  return shape;
}

}  // namespace

std::vector<RequestShape> read_workload_file(const std::string& path, int64_t default_output_tokens) {
  std::ifstream file(path);
  if (!file)
    throw Error(
        format("{}: cannot be read; --dataset takes random, sharegpt-like, prefix-heavy or a JSON Lines file",
            printable(path)));
  std::vector<RequestShape> shapes;
  std::string text;
  for (int64_t number = 1; std::getline(file, text); ++number) {
    if (text.find_first_not_of(" \t\r") == std::string::npos) continue;
    const std::string what = format("{}, line {}", path, number);
    if (number > kMostLines) throw Error(format("{}: more than {} lines", path, kMostLines));
    const Json json = parse_json(text, what, kLineLimits);
    shapes.push_back(shape_of(JsonFields(json, what), number, default_output_tokens));
  }
  if (file.bad()) throw Error(format("{}: reading failed", path));
  if (shapes.empty()) throw Error(format("{}: no requests in it: expected one JSON object a line", path));
  return shapes;
}

}  // namespace cheetah
