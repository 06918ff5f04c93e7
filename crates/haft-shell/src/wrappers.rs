//! Programs that run other programs, and where the inner command begins among their words.

use super::{
    Word, is_one_of,
    options::{ParsedOptions, Valued},
};

/// The command that a wrapper runs.
pub(super) enum WrappedCommand {
    /// The program is not a wrapper.
    NoWrapper,
    /// This call runs nothing.
    Nothing,
    /// The words from here on. `is_plain`: the wrapper changes nothing about them that a rule would
    /// depend on.
    Words { words: Vec<Word>, is_plain: bool, more: bool },
    /// A text that a shell runs.
    Text { text: String, is_plain: bool },
    /// An unknown text. `is_fetched` when it comes from the network.
    Unknown { why: &'static str, is_fetched: bool },
    /// It runs its standard input.
    Input,
}

struct WrapperRow {
    names: &'static str,
    /// The letters of options without a value. With any other option the beginning of the command
    /// is unknown.
    flags: &'static str,
    valued: Valued,
    /// Number of words before the command.
    skips: usize,
    is_plain: bool,
}

const fn row(
    names: &'static str,
    flags: &'static str,
    letters: &'static str,
    long: &'static str,
    skips: usize,
) -> WrapperRow {
    WrapperRow { names, flags, valued: Valued { letters, names: long }, skips, is_plain: true }
}

const fn outer(row: WrapperRow) -> WrapperRow {
    WrapperRow { is_plain: false, ..row }
}

static WRAPPER_ROWS: &[WrapperRow] = &[
    row("timeout gtimeout", "v", "ks", "kill-after signal", 1),
    row("nice", "0123456789", "n", "adjustment", 0),
    row("nohup builtin", "", "", "", 0),
    row("setsid", "cfw", "", "", 0),
    row("ionice", "t", "cn", "class classdata", 0),
    row("stdbuf", "", "ioe", "input output error", 0),
    // With `-a` or `-l` the program gets another name and may do something else: `exec -a x zstdcat
    // a` compresses.
    row("exec", "c", "", "", 0),
    row("taskset", "", "", "", 1),
    row("unbuffer chronic caffeinate", "pevdims", "", "", 0),
    // Their applets have other options than the programs we know.
    outer(row("busybox toybox", "", "", "", 0)),
    outer(row("time", "pvaq", "fo", "format output", 0)),
    outer(row(
        "sudo",
        "nEHkSbAKPB",
        "ugpCDhrtTUR",
        "user group prompt chdir host role type close-from chroot",
        0,
    )),
    outer(row("doas", "n", "uC", "", 0)),
    outer(row("pkexec", "", "", "user", 0)),
    outer(row("chroot", "", "", "userspec groups", 1)),
    outer(row("unshare", "mupifnrUCTc", "SGRw", "root wd setuid setgid map-user map-group", 0)),
    outer(row("nsenter", "amuipnUCTZrwF", "tSG", "target setuid setgid", 0)),
    outer(row("strace ltrace", "fFvcCqtTyriDkhxw", "oepsEuaIOPSUXbz", "output trace", 0)),
    outer(row("entr", "rcpdnaz", "", "", 0)),
    outer(row("fakeroot dbus-run-session torsocks proxychains", "q", "", "", 0)),
];

/// Programs that start others by rules that we do not parse.
const STARTERS: &str =
    "systemd-run setpriv prlimit firejail bwrap proot xvfb-run faketime expect rlwrap cpulimit";

/// `npx x` and similar programs run a program of the project.
static RUNNERS: &[(&str, &str)] = &[
    ("npx", ""),
    ("bunx", ""),
    ("pnpx", ""),
    ("uvx", ""),
    ("uv", "run"),
    ("poetry", "run"),
    ("pipenv", "run"),
    ("bundle", "exec"),
    ("pnpm", "exec"),
    ("npm", "exec"),
    ("yarn", "exec"),
    ("rye", "run"),
    ("hatch", "run"),
    ("nix-shell", "--run"),
    ("direnv", "exec"),
];

pub(super) fn unwrap(name: &str, words: &[Word]) -> WrappedCommand {
    let rest = words.get(1..).unwrap_or_default();
    match name {
        "env" => env(rest),
        "command" => command(rest),
        "xargs" | "gxargs" => xargs(rest),
        "sh" | "bash" | "dash" | "zsh" | "ksh" | "ash" | "rbash" | "mksh" | "fish" => shell(rest),
        "eval" => joined(rest, true),
        "watch" => watched(rest),
        "trap" => trap(rest),
        "su" | "runuser" => {
            option_text(rest, Valued { letters: "csgG", names: "command shell group" })
        }
        "script" => option_text(rest, Valued { letters: "cEIoOBTm", names: "command" }),
        "flock" => flock(rest),
        "ssh" => ssh(rest),
        "find" => find(rest),
        "fd" | "fdfind" => fd(rest),
        "parallel" | "sem" | "at" | "batch" => {
            WrappedCommand::Unknown { why: "it builds commands from its input", is_fetched: false }
        }
        "tmux" | "screen" | "zellij" => multiplexer(rest),
        _ if is_loader(name) => {
            WrappedCommand::Unknown { why: "it starts another program", is_fetched: false }
        }
        _ => by_table(name, rest),
    }
}

/// The dynamic loader, which starts the program that it is given: `/lib64/ld-linux-x86-64.so.2
/// touch`.
fn is_loader(name: &str) -> bool {
    let name = name.rsplit('/').next().unwrap_or_default();
    let begins = |beginning: &str| name.starts_with(beginning);
    begins("ld.so")
        || begins("ld-") && name.contains(".so")
        || begins("ld64.so")
        || begins("ld-linux")
}

fn by_table(name: &str, rest: &[Word]) -> WrappedCommand {
    if let Some((_, verb)) = RUNNERS.iter().find(|(runner, _)| *runner == name) {
        return runner(verb, rest);
    }
    if is_one_of(STARTERS, name) {
        return WrappedCommand::Unknown { why: "it starts another program", is_fetched: false };
    }
    let Some(row) = WRAPPER_ROWS.iter().find(|row| is_one_of(row.names, name)) else {
        return WrappedCommand::NoWrapper;
    };
    let skipped = match leading_options(rest, row.flags, row.valued) {
        Some(at) => at + row.skips,
        None => {
            return WrappedCommand::Unknown { why: "it has unknown options", is_fetched: false };
        }
    };
    // `sudo A=1 program` sets a variable.
    let is_assignment = |word: &&Word| {
        name == "sudo"
            && word.known().is_some_and(|text| !text.starts_with('-') && text.contains('='))
    };
    let skipped = skipped + rest.iter().skip(skipped).take_while(is_assignment).count();
    // Only numbers and masks may precede the command.
    if rest.iter().take(skipped).any(|word| word.known().is_none()) {
        return WrappedCommand::Unknown { why: "it has unknown options", is_fetched: false };
    }
    inner(rest, skipped, row.is_plain)
}

fn inner(rest: &[Word], at: usize, is_plain: bool) -> WrappedCommand {
    let words = rest.get(at..).unwrap_or_default().to_vec();
    if words.is_empty() {
        WrappedCommand::Nothing
    } else {
        WrappedCommand::Words { words, is_plain, more: false }
    }
}

/// Counts the words that are options of the wrapper itself: up to the first operand.
fn leading_options(rest: &[Word], flags: &str, valued: Valued) -> Option<usize> {
    let mut at = 0;
    loop {
        let Some(word) = rest.get(at) else { return Some(at) };
        let Some(text) = word.known() else {
            return (!word.may_be_option()).then_some(at);
        };
        if text == "--" {
            return Some(at + 1);
        }
        if !text.starts_with('-') || text == "-" {
            return Some(at);
        }
        let takes_next = takes_next(text, flags, valued)?;
        // An unknown value may be several words, and then the command begins elsewhere.
        if takes_next && rest.get(at + 1).is_some_and(|value| value.known().is_none()) {
            return None;
        }
        at += 1 + usize::from(takes_next);
    }
}

/// Returns true when the value of an option is the next word. None when the option is not known.
fn takes_next(text: &str, flags: &str, valued: Valued) -> Option<bool> {
    const FLAGS: &str = "preserve-status foreground verbose null no-run-if-empty interactive differences color no-title exec \
                         non-interactive yes exclusive shared nonblock frozen no-sync isolated quiet";
    if let Some(long) = text.strip_prefix("--") {
        let name = long.split('=').next().unwrap_or_default();
        let is = |list: &str| is_one_of(list, name);
        return match (is(valued.names), is(FLAGS)) {
            (true, _) => Some(name == long),
            (false, true) => Some(false),
            (false, false) => None,
        };
    }
    let mut letters = text.chars().skip(1).peekable();
    while let Some(letter) = letters.next() {
        if valued.letters.contains(letter) {
            return Some(letters.peek().is_none());
        }
        if !flags.contains(letter) {
            return None;
        }
    }
    Some(false)
}

fn env(rest: &[Word]) -> WrappedCommand {
    const UNKNOWN: WrappedCommand = WrappedCommand::Unknown {
        why: "env splits a text or changes the directory",
        is_fetched: false,
    };
    let mut at = 0;
    let mut is_plain = true;
    while let Some(word) = rest.get(at) {
        if let Some((name, _)) =
            word.prefix.split_once('=').filter(|(name, _)| !name.starts_with('-'))
        {
            // It may become several words, one of them a command.
            if word.is_open {
                return UNKNOWN;
            }
            is_plain &= super::environment::is_harmless(name);
            at += 1;
            continue;
        }
        match word.known() {
            Some("-i" | "-" | "--ignore-environment" | "-0" | "--null") => {
                // Without PATH the shell's default is used.
                is_plain &= word.is("-0") || word.is("--null");
                at += 1;
            }
            Some("-u" | "--unset") => {
                is_plain = false;
                at += 2;
            }
            Some("--") => at += 1,
            Some(text) if text.starts_with('-') => return UNKNOWN,
            Some(_) => break,
            None => return UNKNOWN,
        }
    }
    inner(rest, at, is_plain)
}

fn command(rest: &[Word]) -> WrappedCommand {
    match rest.first().and_then(Word::known) {
        Some("-v" | "-V" | "-pv" | "-pV") => WrappedCommand::Nothing,
        Some("-p" | "--") => inner(rest, 1, true),
        Some(text) if text.starts_with('-') => {
            WrappedCommand::Unknown { why: "it has unknown options", is_fetched: false }
        }
        _ => inner(rest, 0, true),
    }
}

/// The values of `--replace` and similar options are written with `=` or omitted.
pub(super) const XARGS: Valued =
    Valued { letters: "adEILnPs", names: "arg-file delimiter max-args max-procs max-chars" };

fn xargs(rest: &[Word]) -> WrappedCommand {
    let valued = XARGS;
    let Some(at) = leading_options(rest, "0rtpxo", valued) else {
        return WrappedCommand::Unknown { why: "it has unknown options", is_fetched: false };
    };
    let (own, command) = rest.split_at(at.min(rest.len()));
    let options = ParsedOptions::scan(own, valued);
    if contradicts_itself(&options) {
        return WrappedCommand::Unknown {
            why: "its options contradict each other",
            is_fetched: false,
        };
    }
    let replaced =
        options.given.iter().find(|given| matches!(given.name.as_str(), "-I" | "-i" | "--replace"));
    let mark = replaced.map(|given| given.value.clone().unwrap_or_else(|| "{}".to_owned()));
    let fill = |word: &Word| match &mark {
        Some(mark) if word.text.contains(mark.as_str()) => Word::unknown(&word.text),
        _ => word.clone(),
    };
    let words: Vec<Word> = command.iter().map(fill).collect();
    if words.is_empty() {
        return WrappedCommand::Nothing;
    }
    // The words come from a file.
    let has_file = options.has(&["-a"]) || options.has_beginning_of(&["--arg-file"]);
    WrappedCommand::Words { words, is_plain: !has_file, more: mark.is_none() }
}

/// The last of `-I`, `-L` and `-n` wins, in ways that differ between versions of xargs.
fn contradicts_itself(options: &ParsedOptions<'_>) -> bool {
    let is_splitting = |name: &str| matches!(name, "-I" | "-L" | "-n" | "--max-args");
    let splitting: Vec<&str> = options
        .given
        .iter()
        .map(|given| given.name.as_str())
        .filter(|it| is_splitting(it))
        .collect();
    splitting.contains(&"-I") && splitting.len() > 1
}

/// `bash -c text`, `bash -lc text`, `bash script`, `bash` alone.
fn shell(rest: &[Word]) -> WrappedCommand {
    let mut at = 0;
    let mut has_text = false;
    while let Some(word) = rest.get(at) {
        let Some(text) = word.known() else {
            if word.is_fetched {
                return WrappedCommand::Unknown {
                    why: "it runs code from the network",
                    is_fetched: true,
                };
            }
            if has_text {
                break;
            }
            return if word.may_be_option() {
                WrappedCommand::Unknown {
                    why: "a shell runs an unknown text",
                    is_fetched: word.is_fetched,
                }
            } else {
                WrappedCommand::NoWrapper
            };
        };
        match text {
            "--" | "-" => {
                at += 1;
                break;
            }
            "-o" | "+o" | "-O" | "+O" | "--rcfile" | "--init-file" => {
                return WrappedCommand::Unknown {
                    why: "it starts a shell with other settings",
                    is_fetched: false,
                };
            }
            "--login" | "--norc" | "--noprofile" | "--posix" => at += 1,
            "--version" | "--help" => return WrappedCommand::NoWrapper,
            _ if text.starts_with("--") => {
                return WrappedCommand::Unknown {
                    why: "it starts a shell with other settings",
                    is_fetched: false,
                };
            }
            _ if text.starts_with('-') => {
                if !text.chars().skip(1).all(|letter| "clexuvis".contains(letter))
                    || text.contains('i')
                {
                    return WrappedCommand::Unknown {
                        why: "it starts a shell with other settings",
                        is_fetched: false,
                    };
                }
                has_text |= text.contains('c');
                if text.contains('s') {
                    return WrappedCommand::Input;
                }
                at += 1;
            }
            _ => break,
        }
    }
    match (has_text, rest.get(at)) {
        (true, Some(word)) => match word.known() {
            Some(text) => WrappedCommand::Text { text: text.to_owned(), is_plain: true },
            None => WrappedCommand::Unknown {
                why: "a shell runs an unknown text",
                is_fetched: word.is_fetched,
            },
        },
        (true, None) => WrappedCommand::Nothing,
        (false, None) => WrappedCommand::Input,
        (false, Some(_)) => WrappedCommand::NoWrapper,
    }
}

fn joined(rest: &[Word], is_plain: bool) -> WrappedCommand {
    let rest = if rest.first().is_some_and(|word| word.is("--")) {
        rest.get(1..).unwrap_or_default()
    } else {
        rest
    };
    let texts: Option<Vec<&str>> = rest.iter().map(Word::known).collect();
    match texts {
        Some(texts) if texts.is_empty() => WrappedCommand::Nothing,
        // An unquoted tilde has already been expanded to another directory.
        Some(texts) if rest.iter().all(|word| !word.has_tilde) => {
            WrappedCommand::Text { text: texts.join(" "), is_plain }
        }
        _ => WrappedCommand::Unknown {
            why: "it runs an unknown text",
            is_fetched: rest.iter().any(|word| word.is_fetched),
        },
    }
}

fn watched(rest: &[Word]) -> WrappedCommand {
    let valued = Valued { letters: "nq", names: "interval" };
    match leading_options(rest, "bcdegtpw", valued) {
        Some(at) => joined(rest.get(at..).unwrap_or_default(), true),
        None => WrappedCommand::Unknown { why: "it has unknown options", is_fetched: false },
    }
}

fn trap(rest: &[Word]) -> WrappedCommand {
    let rest = if rest.first().is_some_and(|word| word.is("--")) {
        rest.get(1..).unwrap_or_default()
    } else {
        rest
    };
    match rest {
        [] => WrappedCommand::Nothing,
        [word, ..] if matches!(word.known(), Some("-" | "-p" | "-l" | "")) => {
            WrappedCommand::Nothing
        }
        [_] => WrappedCommand::Nothing,
        [word, ..] => joined(std::slice::from_ref(word), true),
    }
}

fn option_text(rest: &[Word], valued: Valued) -> WrappedCommand {
    let options = ParsedOptions::scan(rest, valued);
    let given =
        options.given.iter().find(|given| matches!(given.name.as_str(), "-c" | "--command"));
    match given {
        Some(given) => match (given.word, &given.value) {
            (Some(word), _) if word.known().is_none() => WrappedCommand::Unknown {
                why: "it runs an unknown text",
                is_fetched: word.is_fetched,
            },
            (_, Some(text)) => WrappedCommand::Text { text: text.clone(), is_plain: false },
            _ => WrappedCommand::Nothing,
        },
        None => WrappedCommand::Input,
    }
}

fn flock(rest: &[Word]) -> WrappedCommand {
    let valued = Valued { letters: "wE", names: "timeout wait conflict-exit-code" };
    let Some(at) = leading_options(rest, "sxeunoFv", valued) else {
        return WrappedCommand::Unknown { why: "it has unknown options", is_fetched: false };
    };
    match rest.get(at + 1).and_then(Word::known) {
        Some("-c" | "--command") => joined(rest.get(at + 2..).unwrap_or_default(), false),
        _ => inner(rest, at + 1, false),
    }
}

fn ssh(rest: &[Word]) -> WrappedCommand {
    let valued = Valued { letters: "BbcDEeFIiJLlmOopQRSWw", names: "" };
    match leading_options(rest, "46AaCfGgKkMNnqsTtVvXxYy", valued) {
        Some(at) => joined(rest.get(at + 1..).unwrap_or_default(), false),
        None => WrappedCommand::Unknown { why: "it has unknown options", is_fetched: false },
    }
}

/// The first command of `-exec` and similar options, with `{}` as the directory that is searched.
fn find(rest: &[Word]) -> WrappedCommand {
    let is_exec =
        |word: &Word| matches!(word.known(), Some("-exec" | "-execdir" | "-ok" | "-okdir"));
    let Some(at) = rest.iter().position(is_exec) else { return WrappedCommand::NoWrapper };
    let after = rest.get(at + 1..).unwrap_or_default();
    let Some(end) = end_of_exec(after) else {
        return WrappedCommand::Unknown { why: "what find runs has no end", is_fetched: false };
    };
    let later = after.get(end + 1..).unwrap_or_default();
    if later.iter().any(is_exec) {
        return WrappedCommand::Unknown { why: "find runs several commands", is_fetched: false };
    }
    let roots = super::files::find_roots(rest);
    let fill = |word: &Word| match (word.text.as_str(), roots.as_slice()) {
        ("{}", [root]) => Word { below: Some(Box::new(root.clone())), ..word.clone() },
        (text, _) if text.contains("{}") => Word::unknown(text),
        _ => word.clone(),
    };
    let command = after.get(..end).unwrap_or_default();
    if command.first().is_some_and(|word| word.text.contains("{}")) {
        return WrappedCommand::Unknown { why: "find runs the files it finds", is_fetched: false };
    }
    WrappedCommand::Words {
        words: command.iter().map(fill).collect(),
        is_plain: false,
        more: false,
    }
}

/// Finds the end of the words of `-exec`. A `+` ends them only after `{}`.
pub(super) fn end_of_exec(words: &[Word]) -> Option<usize> {
    let is_end = |index: &usize| {
        let before = index.checked_sub(1).and_then(|before| words.get(before));
        let is = |text: &str| words.get(*index).is_some_and(|word| word.is(text));
        is(";") || is("+") && before.is_some_and(|word| word.text == "{}")
    };
    (0..words.len()).find(is_end)
}

fn fd(rest: &[Word]) -> WrappedCommand {
    let is_exec =
        |word: &Word| matches!(word.known(), Some("-x" | "-X" | "--exec" | "--exec-batch"));
    match rest.iter().position(is_exec) {
        Some(at) => {
            let command = rest.get(at + 1..).unwrap_or_default();
            let fill = |word: &Word| {
                if word.text.contains('{') { Word::unknown(&word.text) } else { word.clone() }
            };
            WrappedCommand::Words {
                words: command.iter().map(fill).collect(),
                is_plain: false,
                more: true,
            }
        }
        // `-Hx command`, `-xcommand`, `--exec=command`.
        None if rest.iter().any(may_execute) => {
            WrappedCommand::Unknown { why: "it runs a command on each match", is_fetched: false }
        }
        None => WrappedCommand::NoWrapper,
    }
}

fn may_execute(word: &Word) -> bool {
    let text = word.prefix.as_str();
    let is_long = text.starts_with("--");
    is_long
        && text.starts_with("--ex")
        && !text.starts_with("--ext")
        && !text.starts_with("--exc")
        && !text.starts_with("--exact")
        || !is_long && text.starts_with('-') && text.contains(['x', 'X'])
}

fn multiplexer(rest: &[Word]) -> WrappedCommand {
    let verb = rest.iter().filter_map(Word::known).find(|text| !text.starts_with('-'));
    let only_lists = verb.is_some_and(|verb| {
        verb.starts_with("list-")
            || matches!(verb, "ls" | "has-session" | "capture-pane" | "display-message")
    });
    if only_lists {
        WrappedCommand::NoWrapper
    } else {
        WrappedCommand::Unknown { why: "it passes commands to another shell", is_fetched: false }
    }
}

fn runner(verb: &str, rest: &[Word]) -> WrappedCommand {
    let rest = match (verb, rest) {
        ("", rest) => rest,
        (verb, [first, rest @ ..]) if first.is(verb) => rest,
        _ => return WrappedCommand::NoWrapper,
    };
    match leading_options(
        rest,
        "yq",
        Valued { letters: "pcw", names: "package with python extra group project directory call" },
    ) {
        Some(at)
            if rest
                .get(..at)
                .unwrap_or_default()
                .iter()
                .any(|word| word.is("-c") || word.is("--call")) =>
        {
            WrappedCommand::Unknown { why: "it runs a text", is_fetched: false }
        }
        Some(at) => inner(rest, at, false),
        None => WrappedCommand::Unknown { why: "it has unknown options", is_fetched: false },
    }
}
