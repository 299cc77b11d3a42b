// SPDX-License-Identifier: MIT
#include "serve/api/completion_writer.h"

#include <algorithm>
#include <utility>

#include "base/format.h"
#include "engine/grammar/model_tables.h"
#include "serve/api/json_text.h"

namespace cheetah {
namespace {

// Characters, by their first bytes: the pieces of one character count once.
int64_t characters(std::string_view bytes) {
  return std::ranges::count_if(bytes, [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; });
}

struct Choice {
  std::string text;
  std::vector<GeneratedToken> tokens;
  std::optional<FinishReason> finish;
  std::string stop_string;
  std::string prompt_logprobs = "null";  // as JSON, where wanted
  int64_t offset = 0;                    // of the next token in the text
  bool started = false;
};

class CompletionWriter : public ResponseWriter {
 public:
  CompletionWriter(CompletionStyle style, const std::vector<GenerationRequest>& requests)
      : style_(std::move(style)),
        usage_(prompt_tokens(requests), requests.size()),
        choices_(requests.size() * static_cast<size_t>(style_.n)) {
    head_ = format(R"("id":{},"object":"text_completion","created":{},"model":{},"system_fingerprint":{},)",
        json_string(style_.id), style_.created, json_string(style_.model), json_string(style_.fingerprint));
    chunk_head_ = format("data: {{{}\"choices\":[", head_);
    if (style_.token_ids)
      for (const GenerationRequest& request : requests) prompt_ids_.push_back(request.prompt);
  }

  std::string on_event(size_t index, const GenerationEvent& event) override {
    if (failed_) return "";
    if (is_failure(event)) {
      error_ = generation_error(event);
      return style_.stream.stream ? fail(*error_) : "";
    }
    const size_t number = index * static_cast<size_t>(style_.n) + static_cast<size_t>(event.choice);
    Choice& choice = choices_[number];
    usage_.add(index, event, false);
    if (event.finish) {
      choice.finish = event.finish;
      choice.stop_string = event.stop_string;
    }
    if (style_.timings && style_.logprobs) token_times_.add(event);
    if (event.done) last_ = event;
    if (style_.stream.stream) return frame(index, number, event);
    append_tokens(choice, event);
    return "";
  }

  std::string finish() override {
    if (failed_) return "";
    if (!style_.stream.stream) return error_ ? error_body(*error_, ApiStyle::kOpenAi) : body();
    std::string out;
    if (style_.stream.include_usage) out = format("{}],\"usage\":{}}}\n\n", chunk_head_, usage_.json());
    return out + "data: [DONE]\n\n";
  }

  std::string fail(const ApiError& error) override {
    if (std::exchange(failed_, true)) return "";
    return sse_data(error_body(error, ApiStyle::kOpenAi)) + "data: [DONE]\n\n";
  }

 private:
  static int64_t prompt_tokens(const std::vector<GenerationRequest>& requests) {
    int64_t sum = 0;
    for (const GenerationRequest& request : requests) sum += std::ssize(request.prompt);
    return sum;
  }

  void append_tokens(Choice& choice, const GenerationEvent& event) const {
    choice.text += event.text;
    if (style_.logprobs || style_.token_ids)
      choice.tokens.insert(choice.tokens.end(), event.tokens.begin(), event.tokens.end());
    if (style_.prompt_logprobs && event.finish && !event.prompt_logprobs.empty())
      choice.prompt_logprobs = prompt_logprobs_json(event.prompt_logprobs, *style_.tables);
    if (style_.echo && style_.logprobs && event.finish && !event.prompt_logprobs.empty())
      choice.tokens.insert(choice.tokens.begin(), event.prompt_logprobs.begin(), event.prompt_logprobs.end());
  }

  std::string timings() const {
    return style_.timings ? ",\"timings\":" + timings_json(last_, style_.logprobs ? &token_times_ : nullptr)
                          : std::string();
  }

  std::string frame(size_t index, size_t number, const GenerationEvent& event) {
    Choice& choice = choices_[number];
    std::string text = event.text;
    if (!std::exchange(choice.started, true) && style_.echo) text.insert(0, style_.echoed[index]);
    // Tokens whose text is held back, or that have none, are still told when the client wants tokens.
    const bool tokens =
        !event.tokens.empty() && (style_.logprobs || style_.token_ids || !style_.tables->vocabulary());
    if (text.empty() && !tokens && !event.finish) return "";
    std::string out = chunk_head_;
    out += format("{{\"index\":{},\"text\":", number);
    append_quoted(out, text);
    out += ',';
    append_logprobs(out, choice, event.tokens, false);
    if (style_.token_ids) append_token_ids(out, index, event.tokens);
    append_finish(out, choice);
    out += "}]";
    if (style_.stream.continuous_usage)
      out += ",\"usage\":" + usage_.json();
    else if (style_.stream.include_usage)
      out += ",\"usage\":null";
    if (event.done) out += timings();
    return out + "}\n\n";
  }

  static void append_finish(std::string& out, const Choice& choice) {
    if (!choice.finish) {
      out += "\"finish_reason\":null";
      return;
    }
    out += format("\"finish_reason\":\"{}\"", finish_name(*choice.finish, false));
    if (!choice.stop_string.empty()) out += ",\"stop_reason\":" + json_string(choice.stop_string);
  }

  void append_token_ids(std::string& out, size_t index, const std::vector<GeneratedToken>& tokens) {
    std::vector<int32_t> ids;
    for (const GeneratedToken& token : tokens) ids.push_back(token.id);
    out += "\"token_ids\":";
    append_ids(out, ids);
    if (!prompt_ids_[index].empty()) {
      out += ",\"prompt_token_ids\":";
      append_ids(out, std::exchange(prompt_ids_[index], {}));
    }
    out += ',';
  }

  // {tokens, token_logprobs, top_logprobs, text_offset}: four lists of one length.
  void append_logprobs(
      std::string& out, Choice& choice, const std::vector<GeneratedToken>& tokens, bool with_prompt) const {
    if (!style_.logprobs) {
      out += "\"logprobs\":null,";
      return;
    }
    std::string texts, logprobs, tops, offsets;
    for (size_t i = 0; i < tokens.size(); ++i) {
      const std::string_view comma = i > 0 ? "," : "";
      const std::string_view bytes = style_.tables->token_bytes(tokens[i].id);
      const bool unknown = with_prompt && i == 0;  // nothing stood before the first token
      texts += comma;
      append_quoted(texts, bytes);
      logprobs += comma;
      tops += comma;
      if (unknown) {
        logprobs += "null";
        tops += "null";
      } else {
        append_number(logprobs, static_cast<double>(tokens[i].logprob));
        append_top(tops, tokens[i]);
      }
      offsets += format("{}{}", comma, choice.offset);
      choice.offset += characters(bytes);
    }
    out += format(
        R"("logprobs":{{"tokens":[{}],"token_logprobs":[{}],"top_logprobs":[{}],"text_offset":[{}]}},)",
        texts, logprobs, tops, offsets);
  }

  void append_top(std::string& out, const GeneratedToken& token) const {
    out += '{';
    // Different ids can have one text; a key stands only once, with the likeliest.
    std::vector<std::string> seen;
    for (size_t i = 0; i < token.top.size() && i < static_cast<size_t>(style_.top_logprobs); ++i) {
      const std::string key = json_string(style_.tables->token_bytes(token.top[i].id));
      if (std::ranges::find(seen, key) != seen.end()) continue;
      out += (seen.empty() ? "" : ",") + key + ":";
      append_number(out, static_cast<double>(token.top[i].logprob));
      seen.push_back(key);
    }
    out += '}';
  }

  std::string body() {
    std::string out = format("{{{}\"choices\":[", head_);
    for (size_t i = 0; i < choices_.size(); ++i) {
      const size_t request = i / static_cast<size_t>(style_.n);
      const std::string text = style_.echo ? style_.echoed[request] + choices_[i].text : choices_[i].text;
      out += format("{}{{\"index\":{},\"text\":", i > 0 ? "," : "", i);
      append_quoted(out, text);
      out += ',';
      append_logprobs(out, choices_[i], choices_[i].tokens, style_.echo);
      if (style_.token_ids) append_token_ids(out, request, choices_[i].tokens);
      append_finish(out, choices_[i]);
      if (style_.prompt_logprobs) out += ",\"prompt_logprobs\":" + choices_[i].prompt_logprobs;
      out += '}';
    }
    return out + "],\"usage\":" + usage_.json() + timings() + "}";
  }

  CompletionStyle style_;
  UsageCount usage_;
  std::vector<Choice> choices_;
  std::vector<std::vector<int32_t>> prompt_ids_;
  std::string head_, chunk_head_;
  GenerationEvent last_;
  TokenTimes token_times_;
  std::optional<ApiError> error_;
  bool failed_ = false;
};

}  // namespace

std::unique_ptr<ResponseWriter> make_completion_writer(
    CompletionStyle style, const std::vector<GenerationRequest>& requests) {
  return std::make_unique<CompletionWriter>(std::move(style), requests);
}

}  // namespace cheetah
