//! Checks the analysis of commands against bash: the real shell runs random texts with stub
//! programs that record how they were called. Every command that ran and every file that was
//! created must be in the analysis, or be covered by a doubt.

use std::{
    fmt::Write,
    fs,
    os::unix::fs::{PermissionsExt, symlink},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

mod hostile;

use haft_shell::{Certainty, DoubtSubject, FileAction, Reach, Reading, read};

const CASES: usize = 300;
const STUBS: &[&str] = &["foo", "bar", "ls", "cat", "git", "rm", "fo", "o"];
const REAL: &[&str] = &["env", "timeout", "nice", "xargs", "find", "bash", "sh", "nohup"];
/// Written by stub programs that record how they were called. One write each, because several may
/// write at once.
const STUB: &str =
    "#!/bin/sh\nprintf '%s\\001' \"${0##*/}\" \"$@\" '\u{2}' >> \"$CALLS\"\nprintf '%s\\n' bar x\n";

#[test]
fn whatever_bash_runs_was_read_or_doubted() {
    let report = run(0x5eed, CASES);
    assert!(report.wrong.is_empty(), "{}", report.wrong.join("\n"));
    // An analysis that doubts everything would be correct but useless.
    assert!(
        report.sure * 4 > CASES,
        "only {} of {CASES} texts were read without a doubt",
        report.sure
    );
    assert!(report.ran > CASES, "hardly anything ran: {}", report.ran);
}

pub(crate) struct AnalysisReport {
    pub(crate) wrong: Vec<String>,
    pub(crate) sure: usize,
    pub(crate) ran: usize,
}

pub(crate) fn run(seed: u64, cases: usize) -> AnalysisReport {
    let fixture = tempfile::tempdir().expect("a temporary folder");
    let programs = fixture.path().join("programs");
    make_programs(&programs);
    let mut chance = PseudoRandom(seed);
    let mut report = AnalysisReport { wrong: Vec::new(), sure: 0, ran: 0 };
    for case in 0..cases {
        let mut text = String::new();
        // Short texts are mostly analysed without a doubt, and only those can be wrong.
        let depth = chance.below(4);
        chance.list(&mut text, depth);
        if chance.one_in(3) {
            text = chance.disturbed(&text);
        }
        let reading = read(&text);
        report.sure += usize::from(reading.doubts.is_empty());
        let place = fixture.path().join(format!("case{case}"));
        let ran = execute(&text, &place, &programs);
        report.ran += ran.calls.len();
        let problems = problems(&reading, &ran);
        if !problems.is_empty() {
            report.wrong.push(format!("{text:?}\n  {}\n  {:?}", problems.join("\n  "), reading));
        }
        // A process that closed its pipes may still write. The whole folder is removed in the end.
        drop(fs::remove_dir_all(&place));
    }
    report
}

fn make_programs(programs: &Path) {
    fs::create_dir(programs).expect("a folder");
    for name in STUBS {
        let path = programs.join(name);
        fs::write(&path, STUB).expect("written");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("made executable");
    }
    for name in REAL {
        let real = Path::new("/usr/bin").join(name);
        symlink(real, programs.join(name)).expect("linked");
    }
}

struct ShellRun {
    calls: Vec<Vec<String>>,
    files: Vec<PathBuf>,
}

fn execute(text: &str, place: &Path, programs: &Path) -> ShellRun {
    let work = place.join("work");
    fs::create_dir_all(work.join("d/e")).expect("folders");
    let calls = place.join("calls");
    fs::write(&calls, "").expect("written");
    let status = Command::new("/usr/bin/timeout")
        .args(["-s", "KILL", "10", "/bin/bash", "-c", text])
        .current_dir(&work)
        .env_clear()
        .env("PATH", programs)
        .env("HOME", place.join("home"))
        .env("CALLS", &calls)
        .env("W", "foo secret")
        // The texts include functions that call themselves, repeatedly and in the background.
        .env("FUNCNEST", "2")
        .env("LC_ALL", "C.UTF-8")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .output();
    // The pipes stay open while a background process runs, so that nothing is missed.
    status.expect("bash starts");
    let written = fs::read(&calls).expect("the calls");
    let written = String::from_utf8_lossy(&written);
    let words = |call: &str| call.split_terminator('\u{1}').map(str::to_owned).collect::<Vec<_>>();
    let calls = written.split_terminator("\u{2}\u{1}").map(words).collect();
    let mut files = Vec::new();
    gather(&work, &work, &mut files);
    ShellRun { calls, files }
}

fn gather(root: &Path, folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            gather(root, &path, files);
        } else {
            files.push(path.strip_prefix(root).expect("below").to_owned());
        }
    }
}

fn problems(reading: &Reading, ran: &ShellRun) -> Vec<String> {
    let mut problems = Vec::new();
    let is_unsure = reading.doubts.iter().any(|doubt| doubt.about == DoubtSubject::Commands);
    for call in &ran.calls {
        if !is_unsure && !is_read(reading, call) {
            problems.push(format!("ran unread: {call:?}"));
        }
    }
    let is_named = |path: &PathBuf| {
        reading.files.iter().any(|file| {
            file.how == FileAction::Write && (file.path == *path || file.reach != Reach::Itself)
        })
    };
    for file in &ran.files {
        if reading.doubts.is_empty() && !is_named(file) {
            problems.push(format!("came to be unread: {file:?}"));
        }
    }
    problems
}

/// Returns true if one of the commands may have made this call: its certain words occur in order.
fn is_read(reading: &Reading, call: &[String]) -> bool {
    reading.commands.iter().any(|command| {
        let is_exact = command.words.iter().all(|word| word.certainty == Certainty::Exact);
        let texts: Vec<&str> = command.words.iter().map(|word| word.text.as_str()).collect();
        let added = command.through.iter().any(|wrapper| wrapper == "xargs" || wrapper == "find");
        // The shell has expanded a tilde to the home directory.
        let has_tilde = texts.iter().any(|text| text.starts_with('~') || *text == "{}");
        match (is_exact && !has_tilde, added) {
            (true, false) => texts == call,
            (true, true) => {
                call.starts_with(&texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>())
            }
            (false, _) => texts.first() == call.first().map(String::as_str).as_ref(),
        }
    })
}

/// Deterministic pseudo-random numbers.
pub(crate) struct PseudoRandom(pub(crate) u64);

impl PseudoRandom {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() >> 11).unwrap_or(0) % end
    }

    fn one_in(&mut self, many: usize) -> bool {
        self.below(many) == 0
    }

    fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
        from[self.below(from.len())]
    }

    /// Returns the text with some characters removed, inserted or doubled, where grammars differ.
    pub(crate) fn disturbed(&mut self, text: &str) -> String {
        const SIGNS: &[&str] = &[
            "'", "\"", "\\", "$", "`", "(", ")", "{", "}", "[", "]", "<", ">", "|", "&", ";", "\n",
            " ", "#", "!", "*", "?", "=", "~", ",", "-", "\\\n", "((", "))", "$(", "${", "<<", "é",
            "漢", ">>", "\t", "1", "a", "in ", "do ", "esac", "]]", "@", "^", "%",
        ];
        let mut characters: Vec<String> = text.chars().map(String::from).collect();
        for _ in 0..=self.below(3) {
            let at = self.below(characters.len() + 1);
            match self.below(3) {
                0 => characters.insert(at, self.pick(SIGNS).to_owned()),
                1 if at < characters.len() => drop(characters.remove(at)),
                _ if at < characters.len() => characters[at] = self.pick(SIGNS).to_owned(),
                _ => {}
            }
        }
        characters.concat()
    }

    pub(crate) fn list(&mut self, out: &mut String, depth: usize) {
        for index in 0..=self.below(2) {
            if index > 0 {
                out.push_str(self.pick(&[
                    "; ", "\n", " && ", " || ", " & ", " | ", ";", "|", "&&", " # x'\n", " |& ",
                    "\n\n", " \\\n; ",
                ]));
            }
            self.command(out, depth);
        }
    }

    fn command(&mut self, out: &mut String, depth: usize) {
        if depth == 0 {
            return self.simple(out, 0);
        }
        let inner = depth - 1;
        match self.below(28) {
            0 => self.around(out, "( ", inner, " )"),
            1 => self.around(out, "{ ", inner, "; }"),
            2 => {
                self.around(out, "if ", inner, "; then ");
                let end = self.pick(&["; fi", "\nelse foo x; fi", "; elif bar; then foo; fi"]);
                self.around(out, "", inner, end);
            }
            3 => self.around(out, "for i in 1 b \"$W\"; do ", inner, "; done"),
            4 => self.around(out, "while ! bar; do ", inner, "; break; done"),
            5 => self.around(out, "case x in y) foo;; x|z) ", inner, ";; esac"),
            6 => {
                let name = self.pick(&["f", "ls", "bar"]);
                write!(out, "{name}() {{ ").expect("a string");
                self.around(out, "", inner, &format!("; }}; {name} x"));
            }
            7 => self.around(out, "function g { ", inner, "; }\ng"),
            8 => self.around(out, "[[ x == $(", inner, ") ]]"),
            9 => self.around(out, "! ", inner, ""),
            10 => self.around(out, "time ", inner, ""),
            11 => {
                let mut text = String::new();
                self.list(&mut text, inner);
                let quoted = text.replace('\'', "'\\''");
                let wrapper = self.pick(&[
                    "bash -c",
                    "eval",
                    "sh -c",
                    "env bash -c",
                    "bash -lc",
                    "timeout 5 bash -c",
                    "command eval",
                ]);
                write!(out, "{wrapper} '{quoted}'").expect("a string");
            }
            12 => self.here_document(out, inner),
            13 => {
                let wrapper = self.pick(&[
                    "env ",
                    "timeout 5 ",
                    "nice ",
                    "nice -n 3 ",
                    "command ",
                    "nohup ",
                    "env A=b ",
                    "builtin eval ",
                    "exec ",
                    "xargs ",
                    "xargs -n1 ",
                ]);
                out.push_str(wrapper);
                self.simple(out, 0);
            }
            14 => out.push_str(self.pick(&[
                "cd d",
                "cd d && cat x > y",
                "cd d; foo > z",
                "cd nowhere || foo > y",
                "(cd d; foo > q)",
                "cd d/e && cd .. && foo > k",
            ])),
            15 => self.around(out, "trap '", 0, "' EXIT"),
            16 => out.push_str("find . -name d -exec foo {} \\;"),
            17 => out.push_str(self.pick(&[
                "((i=1))",
                "i=2; echo $((i+1))",
                "x=foo; $x a",
                "a=(foo bar); echo ${a[0]}",
                "echo ${W:0:3}",
                "for ((i=0;i<2;i++)); do foo $i; done",
            ])),
            // Constructs that only the shell can evaluate, mostly with texts that it parses again.
            18 => out.push_str(self.pick(&[
                "x=-v; [ \"$x\" 'a[$(foo)]' ]",
                "[ -n \"$W\" ] && foo",
                "declare -a 'x=($(foo))'",
                "x=(); y='($(foo))'; declare x=$y",
                "export Q=\"$W\"; bar",
                "x='1 foo'; env LANG=$x bar",
                "jobs -x foo y",
                "printf %s%n \"$W\" PATH; ls",
                "x='a[$(foo)]'; [[ $x -e\\\nq 1 ]]",
                "function /usr/bin/ls { foo z; }; /usr/bin/ls",
                "echo x | xargs -I{} foo {} y",
                "find . -name d -exec foo + bar \\;",
                "command -p foo a; builtin echo x",
                "i\\\nf bar; then foo; fi",
                "mapfile -t v <<< \"$W\"; foo \"${v[0]}\"",
                "read -r v <<< \"$W\"; foo \"$v\"",
                "set -e; foo || bar",
                "local q=1; foo",
            ])),
            19 => self.around(out, "coproc ", inner, "; wait"),
            20 => self.around(out, "select i in a; do ", inner, "; break; done <<< 1"),
            21 => self.around(out, "until bar; do ", inner, "; break; done 2>/dev/null"),
            _ => self.simple(out, depth),
        }
    }

    fn around(&mut self, out: &mut String, before: &str, depth: usize, after: &str) {
        out.push_str(before);
        self.list(out, depth);
        out.push_str(after);
    }

    fn here_document(&mut self, out: &mut String, depth: usize) {
        let mark = self.pick(&["E", "'E'", "\"E\"", "\\E", "-E", "-'E'"]);
        writeln!(out, "cat <<{mark}{}", self.pick(&["", " > h", " | foo", " && bar"]))
            .expect("a string");
        for _ in 0..self.below(3) {
            let mut word = String::new();
            self.word(&mut word, depth);
            writeln!(out, "{} {word}", self.pick(&["a", "it's", "\"", "#", "\\$x", "\t"]))
                .expect("a string");
        }
        out.push_str("E\n");
        self.simple(out, 0);
    }

    fn simple(&mut self, out: &mut String, depth: usize) {
        if self.one_in(8) {
            out.push_str(
                self.pick(&["A=1 ", "B='x y' ", "C=$W ", "D+=x ", "> o ", "2>&1 ", "A[0]=x "]),
            );
        }
        out.push_str(self.pick(&[
            "foo", "bar", "ls", "cat", "git", "rm", "f\"o\"o", "\\foo", "'bar'", "$'foo'",
            "fo\\\no", "\"foo\"", "$W", "${W}", "fo''o", "foo", "bar", "cat", "echo", ":",
        ]));
        for _ in 0..self.below(4) {
            out.push_str(self.pick(&[" ", " ", "  ", "\t", " \\\n"]));
            self.word(out, depth);
        }
        for _ in 0..2 {
            if self.one_in(5) {
                out.push_str(self.pick(&[
                    " > o1",
                    " >> o2",
                    " 2>&1",
                    " >&2",
                    " &> o3",
                    " 2> o4",
                    " < /dev/null",
                    " >| o5",
                    " <<< x",
                    " > \"o 6\"",
                    " >$W",
                    " {fd}> o7",
                    " <> o8",
                    " >&o9",
                    " > o10 2> o11",
                    "> 'o12'",
                    " 3>o13",
                    " >o\"1\"4",
                    " &>> o15",
                ]));
            }
        }
    }

    fn word(&mut self, out: &mut String, depth: usize) {
        if depth > 0 && self.one_in(4) {
            let (before, after) = [
                ("$(", ")"),
                ("\"$(", ")\""),
                ("`", "`"),
                ("<(", ")"),
                ("\"${x:-$(", ")}\""),
                ("${x:-$(", ")}"),
                ("a$(", ")b"),
                ("$((1+$(", ")))"),
                ("$( (", ") )"),
                ("\"`", "`\""),
            ][self.below(10)];
            let mut inner = String::new();
            self.list(&mut inner, depth - 1);
            let is_backtick = before.contains('`');
            if is_backtick && (inner.contains('`') || inner.contains('\\') || inner.contains('"')) {
                inner = "foo y".to_owned();
            }
            write!(out, "{before}{inner}{after}").expect("a string");
            return;
        }
        out.push_str(self.pick(&[
            "a",
            "b1",
            "-f",
            "--x=y",
            "'a b'",
            "\"a b\"",
            "$W",
            "\"$W\"",
            "a'b'c",
            "\\a",
            "$'x\\x41'",
            "{a,b}",
            "x{1,2}y",
            "*",
            "d*",
            "~",
            "a#b",
            "\\#",
            "'#'",
            "{}",
            "}",
            "!",
            "if",
            "]]",
            "a\\\nb",
            "\"\"",
            "''",
            "\"a\\\"b\"",
            "'it'\\''s'",
            "$((1+2))",
            "a=b",
            "\"$(foo)\"",
            "${x:-y}",
            "${#W}",
            "$?",
            "\"a`foo`\"",
            "[a]",
            "?",
            "$",
            "\"$\"",
            "a\\ b",
            "\"\\$x\"",
            "'$x'",
            "%s",
            "é",
            "@",
            "+x",
            "then",
            "{",
            "{a,",
            "a}",
            "=",
            "\"a\nb\"",
            "{1..3}",
            "\\\\",
            "${x:+$(foo)}",
            "\"{a,b}\"",
            "a,b",
            "{a}",
            "{,x}",
            "x={a,b}",
            "\"x\"'y'$W",
            "größe",
            "漢'字'",
            "\"ü$W\"",
            "{ä,ö}",
            "\\é",
            "$'\\u00e9'",
            "é*",
            "${x:-ü}",
            "ä=b",
            "\u{a0}",
            "<(foo)",
            "a<b",
            "[[",
            "$!",
            "${W%o*}",
            "${W//o/é}",
            "~/x",
            "a=~",
            "=(",
        ]));
    }
}
