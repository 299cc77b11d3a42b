// SPDX-License-Identifier: MIT
#include "cli/line_editor.h"

#include <histedit.h>
#include <unistd.h>

#include <langinfo.h>
#include <poll.h>
#include <algorithm>
#include <cerrno>
#include <clocale>
#include <cstdio>
#include <filesystem>

#include "base/utf8.h"
#include "cli/signals.h"

namespace cheetah {
namespace {

constexpr int kKeptMessages = 1000;
constexpr const char* kPasteBegins = "\033[?2004h";  // bracketed paste: the terminal marks what is pasted
constexpr const char* kPasteEnds = "\033[?2004l";
constexpr std::string_view kEndOfPaste = "\033[201~";
constexpr size_t kMostPasteBytes = size_t{16} << 20;

// libedit speaks wide characters of the locale: UTF-8 whatever the environment says.
void use_utf8() {
  std::setlocale(LC_CTYPE, "");
  if (std::string_view(nl_langinfo(CODESET)) != "UTF-8") std::setlocale(LC_CTYPE, "C.UTF-8");
}

void say(const char* text) {
  std::fputs(text, stdout);
  std::fflush(stdout);
}

}  // namespace

struct LineEditor::State {
  State(std::string path, std::vector<std::string> names)
      : history_file(std::move(path)), commands(std::move(names)) {
    use_utf8();
    edit = el_init("cheetah", stdin, stdout, stderr);
    el_set(edit, EL_CLIENTDATA, this);
    el_set(edit, EL_EDITOR, "emacs");
    el_set(edit, EL_PROMPT_ESC, show_prompt, '\1');
    el_set(edit, EL_GETCFN, read_character);
    past = history_init();
    HistEvent event;
    history(past, &event, H_SETSIZE, kKeptMessages);
    history(past, &event, H_SETUNIQUE, 1);
    if (!history_file.empty()) history(past, &event, H_LOAD, history_file.c_str());
    el_set(edit, EL_HIST, history, past);
    bind("cheetah-paste", paste, {"\033[200~"});
    bind("cheetah-newline", new_line, {"\033\r", "\033\n"});
    bind("cheetah-complete", complete, {"\t"});
  }
  ~State() {
    keep_history();
    history_end(past);
    el_end(edit);
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  void bind(
      const char* name, unsigned char (*work)(EditLine*, int), std::initializer_list<const char*> keys) {
    el_set(edit, EL_ADDFN, name, "of cheetah chat", work);
    for (const char* key : keys) el_set(edit, EL_BIND, key, name, nullptr);
  }

  void keep_history() {
    if (history_file.empty()) return;
    std::error_code ignored;  // a message more or less is no reason to fail
    std::filesystem::create_directories(std::filesystem::path(history_file).parent_path(), ignored);
    HistEvent event;
    history(past, &event, H_SAVE, history_file.c_str());
    std::filesystem::permissions(history_file, std::filesystem::perms(0600), ignored);
  }

  static State& of(EditLine* edit) {
    void* state = nullptr;
    el_get(edit, EL_CLIENTDATA, &state);
    return *static_cast<State*>(state);
  }
  static char* show_prompt(EditLine* edit) { return of(edit).prompt.data(); }

  // One byte of the terminal; false at its end and after Ctrl-C, which may come just before we wait.
  bool next_byte(unsigned char& byte) const {
    constexpr int kPollMs = 50;
    while (!interrupts->pending()) {
      pollfd readable = {.fd = STDIN_FILENO, .events = POLLIN, .revents = 0};
      if (poll(&readable, 1, kPollMs) <= 0) continue;
      const ssize_t got = ::read(STDIN_FILENO, &byte, 1);
      if (got == 1) return true;
      if (got == 0 || errno != EINTR) return false;
    }
    return false;
  }

  static int read_character(EditLine* edit, wchar_t* out) {
    const State& state = of(edit);
    unsigned char byte = 0;
    if (!state.next_byte(byte)) return 0;
    std::string text(1, static_cast<char>(byte));
    while (utf8_part(text).kind == Utf8Start::kIncomplete) {
      if (!state.next_byte(byte)) return 0;
      text += static_cast<char>(byte);
    }
    int64_t at = 0;
    *out = static_cast<wchar_t>(
        utf8_part(text).kind == Utf8Start::kComplete ? next_char(text, at) : kReplacement);
    return 1;
  }

  static unsigned char paste(EditLine* edit, int) {
    const State& state = of(edit);
    std::string text;
    unsigned char byte = 0;
    while (!text.ends_with(kEndOfPaste) && text.size() < kMostPasteBytes) {
      if (!state.next_byte(byte)) return CC_EOF;
      text += byte == '\r' ? '\n' : static_cast<char>(byte);
    }
    if (text.ends_with(kEndOfPaste)) text.resize(text.size() - kEndOfPaste.size());
    std::erase_if(text, [](char c) { return static_cast<unsigned char>(c) < ' ' && c != '\n' && c != '\t'; });
    el_insertstr(edit, repair_utf8(text).c_str());
    return CC_REFRESH;
  }

  static unsigned char new_line(EditLine* edit, int) {
    el_insertstr(edit, "\n");
    return CC_REFRESH;
  }

  static unsigned char complete(EditLine* edit, int) {
    const LineInfo* line = el_line(edit);
    const std::string_view typed(line->buffer, static_cast<size_t>(line->cursor - line->buffer));
    std::vector<std::string> fitting;
    for (const std::string& command : of(edit).commands)
      if (!typed.empty() && command.starts_with(typed)) fitting.push_back(command);
    if (fitting.size() != 1) return CC_REFRESH_BEEP;
    el_insertstr(edit, (fitting.front().substr(typed.size()) + " ").c_str());
    return CC_REFRESH;
  }

  std::string history_file;
  std::vector<std::string> commands;
  std::string prompt;
  EditLine* edit = nullptr;
  History* past = nullptr;
  const InterruptScope* interrupts = nullptr;  // of the read() that runs
};

LineEditor::LineEditor(std::string history, std::vector<std::string> commands)
    : state_(std::make_unique<State>(std::move(history), std::move(commands))) {}
LineEditor::~LineEditor() = default;

LineEditor::Event LineEditor::read(const std::string& prompt, std::string& message) {
  State& state = *state_;
  const InterruptScope interrupts;
  state.interrupts = &interrupts;
  state.prompt = prompt;
  el_set(state.edit, EL_PREP_TERM, 1);  // before the prompt: what is typed at once reaches the editor
  say(kPasteBegins);
  int bytes = 0;
  const char* const line = el_gets(state.edit, &bytes);
  say(kPasteEnds);
  if (interrupts.pending()) {
    const LineInfo* typed = el_line(state.edit);
    const bool was_empty = typed->lastchar == typed->buffer;
    say("\n");
    return was_empty ? Event::kInterrupted : (message.clear(), Event::kMessage);
  }
  if (line == nullptr || bytes <= 0) return Event::kEnd;
  message.assign(line, static_cast<size_t>(bytes));
  while (message.ends_with('\n')) message.pop_back();
  if (!message.empty()) {
    HistEvent event;
    history(state.past, &event, H_ENTER, message.c_str());
  }
  return Event::kMessage;
}

}  // namespace cheetah
