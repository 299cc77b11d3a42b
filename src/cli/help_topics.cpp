// SPDX-License-Identifier: MIT
#include "cli/help_topics.h"

#include "base/terminal.h"
#include "base/text.h"

namespace cheetah {
namespace {

constexpr HelpTopic kTopics[] = {
    {"models", "How a model is named",
        R"(Commands take a model as MODEL or with --model. It is one of these:

  cub-moe                  a name from the model folders
  ./folder, model.gguf     a Hugging Face folder or a GGUF file
  ORG/NAME                 a model of the hub cache; 'cheetah pull ORG/NAME' gets it
  ORG/NAME:Q8_0            its GGUF file of this quantization
  ORG/NAME/FILE.gguf       one file of the repository
  ORG/NAME@REVISION        a branch, a tag or a commit
  random:llama-8b          seeded random weights of that size, to measure speed

Without one the embedded cub-7m is used. Model folders are those of CHEETAH_MODELS, models/ beside or above the program, and share/cheetah/models. 'cheetah list' shows what is there.)"},
    {"numbers", "Counts, sizes and times",
        R"(Counts: 32k is 32,000 and 32K is 32,768. Sizes: 24GiB, 80GB, 512M; K, M, G and T alone are powers of 1,024. Times: 30, 30s, 500ms, 2m, 1h. Latency goals of 'bench serve' and 'doctor engine' (--slo-ttft, --slo-tpot, --slo-itl) are milliseconds.)"},
    {"environment", "Variables",
        R"(  CHEETAH_MODELS         folders with models, separated by colons
  CHEETAH_THREADS        threads to compute with
  CHEETAH_API_KEY        the key that clients of 'serve' must send
  CHEETAH_<FLAG>         any flag of 'serve': --max-queue is CHEETAH_MAX_QUEUE
  HF_HOME, HF_HUB_CACHE  where the hub cache is
  HF_ENDPOINT            another hub, or a mirror
  HF_TOKEN               the token for private and gated models
  HTTPS_PROXY, HTTP_PROXY, NO_PROXY   proxies of 'pull'
  OPENAI_API_KEY         the key 'bench serve' sends
  COLUMNS                how wide help is
  NO_COLOR               no colour on a terminal)"},
    {"exit-codes", "What the exit code means",
        R"(  0    done
  1    it failed, or a check found something; one sentence on standard error
  2    the command line is wrong
  70   the engine of 'serve' failed for good
  130  interrupted with Ctrl-C)"},
    {"output", "Results and files",
        R"(A result is written with --json. Commands that only compute or look print one JSON object instead of text. Commands that measure (bench, lab run, lab list) take a file, --json FILE, and keep their text; '--json -' prints the JSON instead of the text. Files are replaced whole or not at all. Colour and control characters appear on a terminal only.)"},
};

}  // namespace

std::span<const HelpTopic> help_topics() { return kTopics; }

std::vector<std::string> topic_names() {
  std::vector<std::string> names;
  for (const HelpTopic& topic : kTopics) names.emplace_back(topic.name);
  return names;
}

std::string topic_page(const HelpTopic& topic, int columns) {
  return std::string(topic.title) + "\n\n" + fitted(topic.text, columns) + "\n";
}

}  // namespace cheetah
