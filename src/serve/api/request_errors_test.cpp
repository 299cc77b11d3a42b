// SPDX-License-Identifier: MIT
// Every way a body can be wrong, with the code, the field and a part of the sentence the client is told.
#include "serve/api/api_fixture.h"

namespace cheetah {
namespace {

struct BadCase {
  std::string body;
  std::string code;
  std::string param;    // "": null
  std::string message;  // a part of it
  int status = 400;
};

void expect_refusals(ApiParser parser, const std::vector<BadCase>& cases) {
  for (const BadCase& bad : cases) {
    const std::string shown = bad.body.substr(0, 200);
    const ApiError error = refused(parser, bad.body);
    EXPECT_EQ(error.status, bad.status) << shown;
    EXPECT_EQ(error.code, bad.code) << shown << "\n" << error.message;
    EXPECT_EQ(error.param.value_or(""), bad.param) << shown << "\n" << error.message;
    EXPECT_NE(error.message.find(bad.message), std::string::npos) << shown << "\n" << error.message;
    EXPECT_LT(error.message.size(), 600u) << shown;
  }
}

std::string with(const std::string& more) {
  return R"({"model":"cub","messages":[{"role":"user","content":"Hi"}],)" + more + "}";
}
std::string says(const std::string& messages) { return R"({"model":"cub","messages":)" + messages + "}"; }
std::string prompt(const std::string& value, const std::string& more = "") {
  return R"({"model":"cub","prompt":)" + value + (more.empty() ? "" : "," + more) + "}";
}
std::string repeated(const std::string& text, int count) {
  std::string result;
  for (int i = 0; i < count; ++i) result += text;
  return result;
}

TEST(RequestErrorsTest, BodiesThatAreNotAnObject) {
  expect_refusals(parse_chat_completion,
      {{"", "invalid_json", "", "empty"}, {"null", "invalid_json", "", "must be a JSON object"},
          {"[]", "invalid_json", "", "must be a JSON object"},
          {"\"x\"", "invalid_json", "", "must be a JSON object"},
          {"{}", "missing_parameter", "model", "model is required"},
          {"{\"model\":", "invalid_json", "", "line 1 column 10"},
          {"{\"model\":\"cub\",}", "invalid_json", "", "line 1 column 16"},
          {"{\"model\":\"cub\"} x", "invalid_json", "", "column 17"},
          {"{\n  \"a\": NaN}", "invalid_json", "", "line 2 column"},
          {"{'model':'cub'}", "invalid_json", "", "line 1 column 2"},
          {"\xEF\xBB\xBF{}", "invalid_json", "", "byte order mark"},
          {"{\"model\":\"cub\",\"model\":\"cub\"}", "duplicate_key", "model", "stands twice"},
          {with("\"a\":{\"b\":1,\"b\":2}"), "duplicate_key", "b", "stands twice"},
          {repeated("[", 65), "json_too_deep", "", "64"},
          {with("\"a\":" + repeated("[", 64)), "json_too_deep", "", "64"},
          {repeated("[", 1'000'000), "json_too_deep", "", "64"},
          {"{\"model\":\"\xFF\"}", "invalid_unicode", "", "UTF-8"},
          {"{\"model\":\"\\ud800\"}", "invalid_unicode", "", "surrogate"},
          {"{\"model\":\"a\\u0000b\"}", "invalid_unicode", "model", "NUL"}});
}

TEST(RequestErrorsTest, Models) {
  expect_refusals(parse_chat_completion,
      {{R"({"model":5})", "invalid_type", "model", "a string"},
          {R"({"model":""})", "invalid_model_name", "model", "1 to 256"},
          {R"({"model":")" + repeated("a", 300) + R"("})", "invalid_model_name", "model", "256"},
          {R"({"model":"../../etc/passwd"})", "invalid_model_name", "model", "name"},
          {R"({"model":"llama"})", "model_not_found", "model", "does not exist", 404}});
}

TEST(RequestErrorsTest, Messages) {
  expect_refusals(parse_chat_completion,
      {{R"({"model":"cub"})", "missing_parameter", "messages", "required"},
          {says("[]"), "invalid_value", "messages", "non-empty array"},
          {says("{}"), "invalid_type", "messages", "non-empty array"},
          {says("\"hi\""), "invalid_type", "messages", "non-empty array"},
          {says(
               "[" + repeated(R"({"role":"user","content":""},)", 4096) + R"({"role":"user","content":""}])"),
              "too_many_messages", "messages", "4096"},
          {says(R"(["x"])"), "invalid_type", "messages[0]", "an object"},
          {says(R"([{"role":"wizard","content":""}])"), "invalid_value", "messages[0].role",
              "system, developer"},
          {says(R"([{"content":""}])"), "invalid_value", "messages[0].role", "nothing"},
          {says(R"([{"role":1,"content":""}])"), "invalid_value", "messages[0].role", "got 1"},
          {says(R"([{"role":"user","content":1}])"), "invalid_type", "messages[0].content", "got 1"},
          {says(R"([{"role":"user","content":null}])"), "invalid_type", "messages[0].content", "string"},
          {says(R"([{"role":"user","content":[{"type":"poem"}]}])"), "invalid_type", "messages[0].content[0]",
              "poem"},
          {says(R"([{"role":"user","content":[{"type":"text"}]}])"), "missing_parameter",
              "messages[0].content[0].text", "required"},
          {says(
               R"([{"role":"user","content":[{"type":"image_url","image_url":{"url":"file:///etc/passwd"}}]}])"),
              "unsupported_content_part", "messages[0].content[0]", "text parts only"},
          {says(R"([{"role":"tool","content":"x"}])"), "invalid_value", "messages[0].tool_call_id",
              "nothing"},
          {says(R"([{"role":"tool","content":"x","tool_call_id":"no"}])"), "invalid_value",
              "messages[0].tool_call_id", "got \"no\""},
          {says(R"([{"role":"user","content":")" + repeated("word ", 600) + R"("}])"),
              "context_length_exceeded", "messages", "512 tokens"},
          {says(R"([{"role":"user","content":")" + repeated("a", 4'000'000) + R"("}])"),
              "context_length_exceeded", "messages", "512 tokens"}});
}

TEST(RequestErrorsTest, Numbers) {
  std::vector<BadCase> cases;
  const auto add = [&](const std::string& name, const std::vector<std::string>& values,
                       const std::string& message) {
    for (const std::string& value : values)
      cases.push_back({with("\"" + name + "\":" + value), "invalid_value", name, message});
  };
  add("max_tokens", {"0", "-1", "1.5", "\"10\"", "1e18", "true"}, "max_tokens must be an integer in [1, ");
  add("temperature", {"-0.1", "2.1", "\"1\"", "true"}, "temperature must be a finite number in [0, 2]");
  add("temperature", {"1e309"}, "temperature must be a finite number");
  add("top_p", {"0", "1.01"}, "top_p must be a finite number in (0, 1]");
  add("top_k", {"-2", "0.5"}, "top_k must be an integer");
  add("min_p", {"2"}, "min_p must be a finite number in [0, 1]");
  add("presence_penalty", {"3"}, "[-2, 2]");
  add("frequency_penalty", {"-3"}, "[-2, 2]");
  add("repetition_penalty", {"0", "11"}, "(0, 10]");
  add("n", {"0", "-1", "129", "2147483648", "1e12", "9"}, "n must be an integer in [1, 8]");
  add("seed", {"\"x\"", "1180591620717411303424", "1.5"}, "seed must be a 64-bit integer");
  add("top_logprobs", {"21", "-1"}, "[0, 20]");
  add("min_tokens", {"-1"}, "[0, 512]");
  add("timeout", {"0"}, "timeout");
  expect_refusals(parse_chat_completion, cases);
}

TEST(RequestErrorsTest, OtherFields) {
  expect_refusals(parse_chat_completion,
      {{with(R"("max_tokens":5,"max_completion_tokens":6)"), "conflicting_parameters", "max_tokens",
           "differ"},
          {with(R"("n":3,"best_of":2)"), "invalid_value", "best_of", "at least n=3"},
          {with(R"("best_of":2,"stream":true)"), "conflicting_parameters", "best_of", "stream"},
          {with(R"("stop":"")"), "invalid_value", "stop[0]", "1..256 bytes"},
          {with(R"("stop":[null])"), "invalid_value", "stop[0]", "1..256 bytes"},
          {with(R"("stop":5)"), "invalid_type", "stop", "a string or an array"},
          {with(R"("stop":")" + repeated("x", 1 << 20) + "\""), "invalid_value", "stop[0]", "1..256 bytes"},
          {with(R"("stop":[)" + repeated("\"a\",", 16) + "\"a\"]"), "too_many_stop_sequences", "stop", "16"},
          {with(R"("top_logprobs":2)"), "missing_parameter", "logprobs", "top_logprobs needs"},
          {with(R"("logit_bias":{"abc":1})"), "invalid_value", "logit_bias[\"abc\"]", "not a token id"},
          {with(R"("logit_bias":{"-1":1})"), "invalid_value", "logit_bias[\"-1\"]", "not a token id"},
          {with(R"("logit_bias":{"99999999":1})"), "invalid_value", "logit_bias[\"99999999\"]",
              "not a token"},
          {with(R"("logit_bias":{"5":101})"), "invalid_value", "logit_bias[\"5\"]", "[-100, 100]"},
          {with(R"("stream":"true")"), "invalid_type", "stream", "true or false"},
          {with(R"("stream_options":{"include_usage":true})"), "conflicting_parameters", "stream_options",
              "stream"},
          {with(R"("user":")" + repeated("x", 1 << 20) + "\""), "invalid_value", "user", "1024"},
          {with(R"("metadata":{"a":")" + repeated("x", 1 << 20) + "\"}"), "invalid_value", "metadata",
              "16384"},
          {with(R"("cache_salt":"")"), "invalid_value", "cache_salt", "1 to 1024"},
          {with(R"("cache_salt":7)"), "invalid_value", "cache_salt", "1 to 1024"},
          {with(R"("cache_salt":")" + repeated("x", 10240) + "\""), "invalid_value", "cache_salt", "1024"},
          {with(R"("chat_template":"{{ messages }}")"), "chat_template_not_allowed", "chat_template", "own"},
          {with(R"("chat_template_kwargs":{"tokenize":true})"), "unknown_parameter",
              "chat_template_kwargs.tokenize", "unknown"},
          {with(R"("priority":999)"), "priority_not_allowed", "priority", "[0, 100]", 403},
          {with(R"("priority":-1)"), "priority_not_allowed", "priority", "[0, 100]", 403},
          {with(R"("ignore_eos":1)"), "invalid_type", "ignore_eos", "true or false"},
          {with(R"("stop_token_ids":[99999999])"), "invalid_token_id", "stop_token_ids[0]", "not a token id"},
          {with(R"("continue_final_message":true)"), "invalid_value", "continue_final_message",
              "assistant"}});
}

TEST(RequestErrorsTest, TooManyBiases) {
  std::string biases;
  for (int i = 0; i < 1025; ++i) biases += (i > 0 ? ",\"" : "\"") + std::to_string(i) + "\":1";
  expect_refusals(parse_chat_completion,
      {{with("\"logit_bias\":{" + biases + "}"), "invalid_value", "logit_bias", "1024"}});
}

TEST(RequestErrorsTest, Constraints) {
  const std::string object = R"("response_format":{"type":"json_object"})";
  expect_refusals(parse_chat_completion,
      {{with(R"("response_format":{"type":"xml"})"), "invalid_value", "response_format.type", "json_schema"},
          {with(R"("response_format":{"type":"json_schema"})"), "missing_parameter",
              "response_format.json_schema", "required"},
          {with(R"("response_format":{"type":"json_schema","json_schema":{"name":"x"}})"),
              "missing_parameter", "response_format.json_schema.schema", "required"},
          {with(R"("response_format":{"type":"json_schema","json_schema":{"schema":{"type":"strng"}}})"),
              "invalid_grammar", "response_format.json_schema.schema", "at /type"},
          {with(object + R"(,"grammar":"root ::= \"a\"")"), "conflicting_parameters", "grammar",
              "response_format"},
          {with(R"("grammar":"root ::= nothing")"), "invalid_grammar", "grammar", "not defined"},
          {with(R"("guided_regex":"(")"), "invalid_grammar", "guided_regex", "guided_regex"},
          {with(R"("guided_choice":[])"), "invalid_value", "guided_choice", "empty"},
          {with(R"("structured_outputs":{"regex":"["})"), "invalid_grammar", "structured_outputs.regex",
              "structured_outputs.regex"}});
}

TEST(RequestErrorsTest, Prompts) {
  expect_refusals(parse_completion,
      {{R"({"model":"cub"})", "missing_parameter", "prompt", "required"},
          {prompt("{}"), "invalid_type", "prompt", "token ids"},
          {prompt("[]"), "invalid_value", "prompt", "empty"},
          {prompt("[1,2,3,-1]"), "invalid_token_id", "prompt[3]", "prompt[3]=-1"},
          {prompt("[2147483648]"), "invalid_token_id", "prompt[0]", "2147483648"},
          {prompt("[99999999]"), "invalid_token_id", "prompt[0]", "not a token id"},
          {prompt("[1.5]"), "invalid_token_id", "prompt[0]", "1.5"},
          {prompt("[\"a\",[1]]"), "invalid_type", "prompt[1]", "same kind"},
          {prompt("[[1],\"a\"]"), "invalid_type", "prompt[1]", "same kind"},
          {prompt("[null]"), "invalid_type", "prompt[0]", "same kind"},
          {prompt("[[1],[1,\"a\"]]"), "invalid_token_id", "prompt[1][1]", "not a token id"},
          {prompt("\"" + repeated("word ", 600) + "\""), "context_length_exceeded", "prompt", "512"},
          {prompt("[" + repeated("1,", 512) + "1]"), "context_length_exceeded", "prompt", "513"},
          {prompt("[" + repeated("1,", 511) + "1]"), "context_length_exceeded", "prompt", "512"},
          {prompt("[" + repeated("\"a\",", 128) + "\"a\"]"), "invalid_value", "prompt", "128"},
          {prompt("\"a\"", R"("logprobs":21)"), "invalid_value", "logprobs", "[0, 20]"},
          {prompt("\"a\"", R"("max_tokens":0)"), "invalid_value", "max_tokens", "[1, "},
          {prompt("[1]", R"("suffix":"b")"), "conflicting_parameters", "suffix", "prompt"},
          {prompt("\"a\"", R"("stream":true,"prompt_logprobs":1)"), "conflicting_parameters",
              "prompt_logprobs", "streamed"},
          {prompt("\"a\"", R"("stream":true,"best_of":2)"), "conflicting_parameters", "best_of", "stream"},
          {prompt("\"a\"", R"("stream":true,"echo":true,"logprobs":1)"), "conflicting_parameters", "logprobs",
              "echo"}});
}

TEST(RequestErrorsTest, Embeddings) {
  const auto input = [](const std::string& value, const std::string& more = "") {
    return R"({"model":"cub","input":)" + value + (more.empty() ? "" : "," + more) + "}";
  };
  expect_refusals(parse_embeddings,
      {{R"({"model":"cub"})", "missing_parameter", "input", "required"},
          {input("[]"), "invalid_value", "input", "empty"},
          {input("[" + repeated("\"a\",", 99'999) + "\"a\"]"), "invalid_value", "input", "2048"},
          {input("[\"a\",1]"), "invalid_type", "input[1]", "same kind"},
          {input("5"), "invalid_type", "input", "token ids"},
          {input("\"a\"", R"("encoding_format":"hex")"), "invalid_value", "encoding_format", "float"},
          {input("\"a\"", R"("dimensions":0)"), "invalid_value", "dimensions", "[1, "},
          {input("\"a\"", R"("pooling":"max")"), "invalid_value", "pooling", "mean or last"}});
}

TEST(RequestErrorsTest, Tokens) {
  expect_refusals(
      parse_tokenize, {{"{}", "missing_parameter", "prompt", "required"},
                          {R"({"prompt":5})", "invalid_type", "prompt", "a string"},
                          {R"({"model":"no","prompt":""})", "model_not_found", "model", "cub", 404}});
  expect_refusals(parse_detokenize,
      {{"{}", "missing_parameter", "tokens", "required"},
          {R"({"tokens":[-1]})", "invalid_token_id", "tokens[0]", "not a token id"},
          {R"({"tokens":[)" + repeated("1,", 1'000'000) + "1]}", "json_too_large", "", "1000000", 413}});
}

}  // namespace
}  // namespace cheetah
