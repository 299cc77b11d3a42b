// SPDX-License-Identifier: MIT
#pragma once
// Settings of one command from four places: flags, CHEETAH_* variables, a file, defaults, in this order. One
// list gives the flags, the variables, the keys of the file and the help.
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace cheetah {

class Settings {
 public:
  // Reads a value; throws UsageError whose text begins with `where` ("--port", "CHEETAH_PORT", "file.toml:
  // port").
  using Read = std::function<void(const std::string& where, const std::string& text)>;

  struct Entry {
    std::string name;      // max-queue: --max-queue, CHEETAH_MAX_QUEUE, max-queue = … in the file
    std::string fallback;  // as text; "" where there is none
    std::string help;
    Read read;
    bool is_switch = false;      // a flag without a value
    std::string aliases = {};    // more spellings of the flag, e.g. "-c,--max-model-len"
    std::string value = "TEXT";  // what to write, for help: N, SIZE, TIME, a|b
    bool repeats = false;        // given several times it is a list
  };

  void add(Entry entry);
  // Typed forms; the target is set when resolve() runs.
  void add_count(const std::string& name, int64_t& target, int64_t low, int64_t high, const std::string& help,
      const std::string& aliases = "");
  void add_int(const std::string& name, int& target, int low, int high, const std::string& help,
      const std::string& aliases = "");
  void add_bytes(const std::string& name, int64_t& target, const std::string& help);
  void add_text(const std::string& name, std::string& target, const std::string& help);
  void add_choice(const std::string& name, std::string& target, const std::vector<std::string>& choices,
      const std::string& help);
  void add_list(const std::string& name, std::vector<std::string>& target, const std::string& help,
      const std::string& aliases = "");
  void add_switch(const std::string& name, bool& target, const std::string& help);
  void add_number(const std::string& name, double& target, double low, double high, const std::string& help);
  // "30", "30s", "500ms", "2m".
  void add_seconds(const std::string& name, double& target, double low, double high, const std::string& help);

  void add_flags(CLI::App& command);
  using Environment = std::function<const char*(const char*)>;
  // `file`: a TOML file, or "" for none. Throws UsageError for unknown keys and bad values.
  void resolve(const std::string& file, const Environment& environment);
  // Somebody chose it: it is not the default. After resolve().
  bool given(const std::string& name) const;
  // A TOML file with every setting, and as comments where each came from. "" stands for a setting that is not set.
  std::string print() const;

 private:
  struct Flag {
    std::string text;
    bool given = false;
  };
  std::map<std::string, std::string> read_file(const std::string& path) const;

  std::vector<Entry> entries_;
  std::map<std::string, Flag> flags_;
  std::map<std::string, std::pair<std::string, std::string>> resolved_;  // name -> value, source
};

std::vector<std::string> split_list(const std::string& text);  // at commas
std::string variable_name(const std::string& setting);         // max-queue -> CHEETAH_MAX_QUEUE
double parse_seconds(const std::string& where, const std::string& text, double low, double high);

}  // namespace cheetah
