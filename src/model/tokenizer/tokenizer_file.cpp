// SPDX-License-Identifier: MIT
#include "model/tokenizer/tokenizer_file.h"

#include "base/error.h"
#include "base/format.h"
#include "model/tokenizer/vocabulary.h"

namespace cheetah {
namespace {

constexpr int64_t kMaxBytes = int64_t{128} << 20;
constexpr size_t kMaxDepth = 64;

// Receives the parser's events; model.vocab and model.merges go to lists, the rest builds a tree.
class Reader : public nlohmann::json_sax<Json> {
 public:
  explicit Reader(std::string name) : name_(std::move(name)) {}
  TokenizerFile take() { return std::move(file_); }

  bool null() override { return value(Json(nullptr)); }
  bool boolean(bool given) override { return value(Json(given)); }
  bool number_integer(int64_t given) override {
    return list_ == List::kNone ? value(Json(given)) : number(static_cast<double>(given), given);
  }
  bool number_unsigned(uint64_t given) override {
    if (list_ == List::kNone) return value(Json(given));
    return number(static_cast<double>(given), given > INT64_MAX ? INT64_MAX : static_cast<int64_t>(given));
  }
  bool number_float(double given, const std::string&) override {
    if (list_ == List::kVocab) bad("vocab", "ids that are whole numbers");
    return list_ == List::kNone ? value(Json(given)) : number(given, 0);
  }
  bool string(std::string& given) override {
    if (list_ == List::kNone) return value(Json(std::move(given)));
    if (list_ == List::kVocab) bad("vocab", "ids that are whole numbers");
    if (list_depth_ == 1 && list_ == List::kMerges) return merge_line(given);
    if (list_depth_ != 2 || filled_ >= (list_ == List::kMerges ? 2 : 1)) bad_entry();
    if (list_ == List::kScored)
      file_.scored.back().first = std::move(given);
    else
      (filled_ == 0 ? file_.merges.back().first : file_.merges.back().second) = std::move(given);
    ++filled_;
    return true;
  }
  bool binary(Json::binary_t&) override { return false; }

  bool start_object(size_t) override {
    if (list_ != List::kNone) bad_entry();
    if (at_model_field("vocab")) {
      file_.has_vocab = true;
      return enter(List::kVocab);
    }
    return open(Json::object());
  }
  bool start_array(size_t) override {
    if (list_ == List::kNone && at_model_field("vocab")) {
      file_.has_scored = true;
      return enter(List::kScored);
    }
    if (list_ == List::kNone && at_model_field("merges")) {
      file_.has_merges = true;
      return enter(List::kMerges);
    }
    if (list_ == List::kNone) return open(Json::array());
    if (list_ == List::kVocab || list_depth_ != 1) bad_entry();
    list_depth_ = 2;
    filled_ = 0;
    if (list_ == List::kScored) {
      limit(file_.scored.size(), kMaxVocabulary, "vocab");
      file_.scored.emplace_back();
    } else {
      limit(file_.merges.size(), kMaxMerges, "merges");
      file_.merges.emplace_back();
    }
    return true;
  }
  bool end_object() override { return close(); }
  bool end_array() override {
    if (list_depth_ == 2 && filled_ != 2) bad_entry();
    return close();
  }
  bool key(std::string& given) override {
    if (list_ == List::kVocab) {
      key_in_vocab_ = std::move(given);
      return true;
    }
    const bool twice = open_.back()->contains(given) ||
                       (open_.size() == 2 && key_path_ == "model" && given == "vocab" &&
                           (file_.has_vocab || file_.has_scored)) ||
                       (open_.size() == 2 && key_path_ == "model" && given == "merges" && file_.has_merges);
    if (twice) throw Error(format("{}: key \"{}\" stands twice in one object", name_, printable(given)));
    if (open_.size() == 1) key_path_ = given;
    key_ = std::move(given);
    return true;
  }
  bool parse_error(size_t byte, const std::string&, const nlohmann::detail::exception& problem) override {
    std::string_view reason = problem.what();
    if (const size_t colon = reason.rfind(": "); colon != std::string_view::npos)
      reason.remove_prefix(colon + 2);
    throw Error(format("{}: invalid JSON at byte {}: {}", name_, byte, printable(reason, 120)));
  }

 private:
  enum class List { kNone, kVocab, kScored, kMerges };

  [[noreturn]] void bad(const char* field, const char* expected) const {
    throw Error(format("{}: model.{} must hold {}", name_, field, expected));
  }
  [[noreturn]] void bad_entry() const {
    if (list_ == List::kVocab) bad("vocab", "token ids by token");
    if (list_ == List::kScored) bad("vocab", "pairs of a token and a score");
    throw Error(format("{}: merge {} is neither \"a b\" nor [\"a\", \"b\"]", name_,
        file_.merges.size() - (list_depth_ == 2 ? 1 : 0)));
  }
  void limit(size_t count, int64_t most, const char* field) const {
    if (static_cast<int64_t>(count) >= most)
      throw Error(format("{}: model.{} has more than {} entries", name_, field, most));
  }

  bool at_model_field(std::string_view field) const {
    return open_.size() == 2 && key_path_ == "model" && key_ == field && open_.back()->is_object();
  }
  bool enter(List list) {
    list_ = list;
    list_depth_ = 1;
    return true;
  }

  bool number(double score, int64_t id) {
    if (list_ == List::kVocab) {
      limit(file_.vocab.size(), kMaxVocabulary, "vocab");
      file_.vocab.emplace_back(std::move(key_in_vocab_), id);
      return true;
    }
    if (list_ != List::kScored || list_depth_ != 2 || filled_ != 1) bad_entry();
    file_.scored.back().second = score;
    ++filled_;
    return true;
  }

  bool merge_line(const std::string& line) {
    limit(file_.merges.size(), kMaxMerges, "merges");
    const size_t space = line.find(' ');
    if (space == std::string::npos || line.find(' ', space + 1) != std::string::npos) bad_entry();
    file_.merges.emplace_back(line.substr(0, space), line.substr(space + 1));
    return true;
  }

  bool value(Json&& given) {
    if (list_ != List::kNone) bad_entry();
    place(std::move(given));
    return true;
  }
  Json* place(Json&& given) {
    if (open_.empty()) return &(file_.root = std::move(given));
    Json& parent = *open_.back();
    if (parent.is_array()) return &parent.emplace_back(std::move(given));
    return &(parent[key_] = std::move(given));
  }
  bool open(Json&& container) {
    if (open_.size() >= kMaxDepth)
      throw Error(format("{}: JSON is nested deeper than {} levels", name_, kMaxDepth));
    open_.push_back(place(std::move(container)));
    return true;
  }
  bool close() {
    if (list_ == List::kNone) {
      open_.pop_back();
    } else if (--list_depth_ == 0) {
      list_ = List::kNone;
    }
    return true;
  }

  std::string name_;
  TokenizerFile file_;
  std::vector<Json*> open_;  // stable: a container is only appended to while it is the innermost one
  std::string key_, key_path_, key_in_vocab_;
  List list_ = List::kNone;
  int list_depth_ = 0;
  int filled_ = 0;  // values seen in the current pair
};

}  // namespace

TokenizerFile read_tokenizer_file(std::string_view json, const std::string& name) {
  if (std::ssize(json) > kMaxBytes)
    throw Error(
        format("{}: {} bytes, more than the limit of {} for a tokenizer", name, json.size(), kMaxBytes));
  Reader reader(name);
  Json::sax_parse(json.begin(), json.end(), &reader);
  return reader.take();
}

}  // namespace cheetah
