// SPDX-License-Identifier: MIT
// Colours code: keywords, strings, comments, numbers, names of functions. A scan without grammar, the same for every
// language but for its words and comment marks; what it does not know stays plain.

const kC = "alignas auto bool break case catch char class const constexpr continue default delete do double else enum explicit extern false final float for friend goto if inline int long namespace new noexcept nullptr operator override private protected public return short signed sizeof static struct switch template this throw true try typedef typename union unsigned using virtual void volatile while __global__ __device__ __shared__";
const kJs = "abstract any as async await boolean break case catch class const continue debugger default delete do else enum export extends false finally for from function get if implements import in instanceof interface let new null number of private protected public readonly return set static string super switch this throw true try type typeof undefined var void while yield";
const kPython = "False None True and as assert async await break class continue def del elif else except finally for from global if import in is lambda match case nonlocal not or pass raise return self try while with yield";
const kShell = "case do done elif else esac export fi for function if in local return set then unset until while cd echo exit sudo";
const kRust = "as async await break const continue crate dyn else enum extern false fn for if impl in let loop match mod move mut pub ref return self Self static struct super trait true type unsafe use where while i32 i64 u8 u32 u64 usize f32 f64 bool str String Vec Option Result";
const kGo = "break case chan const continue default defer else fallthrough false for func go goto if import interface map nil package range return select struct switch true type var string int int64 error bool byte";
const kSql = "select from where and or not null insert into values update set delete create table index on join left right inner outer group by order limit having as distinct union all primary key foreign references default exists between like in is case when then else end";

const kSlash = String.raw`\/\/[^\n]*|\/\*[^]*?(?:\*\/|$)`, kHash = String.raw`#[^\n]*`, kDash = String.raw`--[^\n]*`;
const kLanguages = {
  c: [kC, kSlash], cpp: [kC, kSlash], "c++": [kC, kSlash], h: [kC, kSlash], cuda: [kC, kSlash], cu: [kC, kSlash], java: [`${kC} ${kJs}`, kSlash], csharp: [`${kC} ${kJs}`, kSlash], cs: [`${kC} ${kJs}`, kSlash],
  js: [kJs, kSlash], javascript: [kJs, kSlash], ts: [kJs, kSlash], typescript: [kJs, kSlash], jsx: [kJs, kSlash], tsx: [kJs, kSlash], json: ["true false null", kSlash],
  py: [kPython, kHash], python: [kPython, kHash], rb: [`${kPython} end do begin rescue module unless`, kHash], ruby: [`${kPython} end do begin rescue module unless`, kHash],
  sh: [kShell, kHash], bash: [kShell, kHash], shell: [kShell, kHash], zsh: [kShell, kHash], console: [kShell, kHash], yaml: ["true false null", kHash], yml: ["true false null", kHash], toml: ["true false", kHash], dockerfile: ["FROM RUN COPY ENV WORKDIR CMD ENTRYPOINT USER EXPOSE ARG", kHash],
  rs: [kRust, kSlash], rust: [kRust, kSlash], go: [kGo, kSlash], golang: [kGo, kSlash], sql: [kSql, kDash],
};
const kMost = 60_000;  // characters; beyond that colour costs more than it helps

// [{ kind, text }]: kind is "k", "s", "c", "n", "f" or "".
export function highlight(text, language) {
  const known = kLanguages[language.toLowerCase()];
  if (!known || text.length > kMost) return [{ kind: "", text }];
  const words = new Set((language.toLowerCase() === "sql" ? `${known[0]} ${known[0].toUpperCase()}` : known[0]).split(" "));
  const pattern = new RegExp(`(?<c>${known[1]})|(?<s>"""[^]*?(?:"""|$)|"(?:[^"\\\\\\n]|\\\\[^])*"?|'(?:[^'\\\\\\n]|\\\\[^])*'?|\`(?:[^\`\\\\]|\\\\[^])*\`?)|(?<n>\\b\\d[\\w.]*)|(?<w>[A-Za-z_$][\\w$]*)`, "g");
  const parts = [];
  const add = (kind, piece) => {
    if (parts.at(-1)?.kind === kind) parts.at(-1).text += piece;
    else if (piece) parts.push({ kind, text: piece });
  };
  let at = 0;
  for (const found of text.matchAll(pattern)) {
    add("", text.slice(at, found.index));
    const { c, s, n, w } = found.groups;
    const end = found.index + found[0].length;
    const is_call = w !== undefined && text.slice(end, end + 2).trimStart().startsWith("(");
    add(c !== undefined ? "c" : s !== undefined ? "s" : n !== undefined ? "n" : words.has(w) ? "k" : is_call ? "f" : "", found[0]);
    at = end;
  }
  add("", text.slice(at));
  return parts;
}
