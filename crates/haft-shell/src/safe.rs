//! The list of safe commands: those that certainly only read and print. Every option of a program
//! that has harmful ones is checked; an unknown option is not safe.

use super::{
    Word, git, is_one_of,
    options::ParsedOptions,
    programs::{KnownProgram, ReadOnly},
    scripts,
};

/// Returns true when a command only reads and prints. `more`: words are added that the parser
/// cannot see.
pub(super) fn is_read_only(name: &str, words: &[Word], more: bool) -> bool {
    let rest = words.get(1..).unwrap_or_default();
    match name {
        "git" => !more && git::is_read_only(rest),
        "find" => !more && super::files::find_is_read_only(rest),
        "sed" => !more && scripts::sed_is_read_only(rest),
        "awk" | "gawk" | "mawk" | "nawk" => !more && scripts::awk_is_read_only(rest),
        "tar" | "bsdtar" => !more && tar_only_lists(rest),
        "unzip" => !more && unzip_only_lists(rest),
        "env" => rest.is_empty() && !more,
        "export" | "declare" | "typeset" | "readonly" | "local" => {
            let is_list = rest.iter().any(|word| matches!(word.known(), Some("-a" | "-A")));
            rest.iter().all(|word| is_plain_declaration(word, is_list))
        }
        "type" | "command" => {
            rest.first().is_some_and(|word| word.is("-v") || word.is("-V")) || name == "type"
        }
        "set" => rest.iter().all(is_plain_setting),
        "shopt" => rest
            .iter()
            .all(|word| matches!(word.known(), Some("-s" | "-u" | "nullglob" | "globstar"))),
        "ulimit" => rest.iter().all(|word| word.is("-a")),
        "umask" | "alias" | "trap" | "hash" => rest.is_empty(),
        "unset" => rest.iter().all(|word| word.known().is_some_and(is_variable)),
        "read" | "mapfile" | "readarray" => reads_plainly(rest),
        _ => by_table(name, rest, more) || only_tells_version(name, rest),
    }
}

fn by_table(name: &str, rest: &[Word], more: bool) -> bool {
    let Some(program) = KnownProgram::named(name) else { return false };
    let options = ParsedOptions::scan(rest, program.valued);
    match program.read_only {
        ReadOnly::Always => has_plain_words(name, rest),
        ReadOnly::Never => false,
        ReadOnly::WithOptions { letters, names } => {
            // Letters that take a value are allowed too: the harmful ones are in neither list.
            let letters = format!("{letters}{}", program.valued.letters);
            let letters = letters.replace(super::files::output_letters(name), "");
            !more
                && !options.is_uncertain
                && options.are_all(&letters, names)
                && has_plain_words(name, rest)
                && has_plain_operands(name, &options)
        }
    }
}

/// Checks words that some programs interpret whatever their options are.
fn has_plain_words(name: &str, rest: &[Word]) -> bool {
    match name {
        "printf" => prints_plainly(rest),
        "test" | "[" => {
            tests_plainly(rest) && !rest.iter().any(|word| word.is_open && word.prefix.is_empty())
        }
        // `jobs -x` runs its words.
        "jobs" => rest.iter().all(|word| matches!(word.known(), Some("-l" | "-p" | "-r" | "-s"))),
        // `@file` stands for the options in that file.
        "strings" | "readelf" | "nm" | "objdump" => {
            !rest.iter().any(|word| word.prefix.is_empty() || word.prefix.starts_with('@'))
        }
        // It is a script, and file names with line ends have misled it.
        "zgrep" => rest.iter().all(|word| word.known().is_some_and(|text| !text.contains('\n'))),
        // A manual page that is given as a file may include others.
        "man" => rest.iter().all(|word| word.known().is_some_and(|text| !text.contains('/'))),
        // Programs in these languages may read other files.
        "jq" => rest.iter().all(|word| !has_any(word, &["import", "include", "modulemeta"])),
        "yq" => rest.iter().all(|word| !has_any(word, &["load", "import", "include"])),
        "less" | "more" => {
            !rest.iter().any(|word| word.prefix.is_empty() || word.prefix.starts_with('+'))
        }
        "wait" => rest.iter().all(|word| !word.may_be_option()),
        _ => true,
    }
}

/// Returns true when `printf` sets no variable. `-v name` sets one, and so does `%n` in its format.
pub(super) fn prints_plainly(rest: &[Word]) -> bool {
    let rest = match rest {
        [word, rest @ ..] if word.is("--") => rest,
        [word, ..] if word.may_be_option() => return false,
        _ => rest,
    };
    let Some(format) = rest.first() else { return true };
    let Some(text) = format.known() else { return rest.len() == 1 && !format.is_open };
    // Flags, widths and sizes may come between the sign and the letter.
    let is_between = |c: char| c.is_ascii_digit() || "-+ #'0*.hlLjztq".contains(c);
    let mut pieces = text.split('%').skip(1).filter(|piece| !piece.is_empty());
    !pieces.any(|piece| piece.trim_start_matches(is_between).starts_with('n'))
}

/// Returns true when `test` checks no variable: bash would evaluate the subscript of its name and
/// run commands in it.
pub(super) fn tests_plainly(rest: &[Word]) -> bool {
    let may_be = |word: &Word| match word.known() {
        Some(text) => matches!(text, "-v" | "-R"),
        None => "-v".starts_with(&word.prefix) || "-R".starts_with(&word.prefix),
    };
    // After the plain operator any name is doubtful; after an unknown operator only a name that may
    // have a subscript.
    let is_name = |word: Option<&Word>| {
        word.is_none_or(|word| word.known().is_some_and(|text| !text.contains('[')))
    };
    rest.iter().enumerate().all(|(index, word)| {
        !may_be(word) || word.known().is_none() && is_name(rest.get(index + 1))
    })
}

fn has_any(word: &Word, texts: &[&str]) -> bool {
    texts.iter().any(|text| word.text.contains(text))
}

fn has_plain_operands(name: &str, options: &ParsedOptions<'_>) -> bool {
    match name {
        // Any other operand sets the clock.
        "date" => options.operands.iter().all(|word| word.prefix.starts_with('+')),
        // An operand is a file to read.
        "hostname" | "who" => options.operands.is_empty(),
        _ => true,
    }
}

/// Returns true when a word of `declare` or a similar builtin sets a variable to a plain text.
fn is_plain_declaration(word: &Word, is_list: bool) -> bool {
    match word.prefix.split_once('=') {
        // bash evaluates a list in quotes again, and runs commands in it.
        Some((name, value)) => {
            let is_text = match word.known() {
                Some(_) => !value.starts_with('('),
                None => !is_list && !word.is_open && !value.starts_with('('),
            };
            is_text && is_variable(name)
        }
        // `-i` makes the value arithmetic, `-n` makes it another variable's name, `-f` concerns
        // functions.
        None => word.known().is_some_and(|text| {
            matches!(text, "-p" | "-x" | "-a" | "-A" | "-r" | "-g") || is_variable(text)
        }),
    }
}

fn is_variable(name: &str) -> bool {
    super::quoting::is_name(name) && !super::environment::is_risky(name)
}

fn is_plain_setting(word: &Word) -> bool {
    let Some(text) = word.known() else { return false };
    let is_option = |text: &str| text.chars().all(|c| "euxo".contains(c));
    matches!(text, "pipefail" | "errexit" | "nounset" | "xtrace")
        || text
            .strip_prefix(['-', '+'])
            .is_some_and(|letters| !letters.is_empty() && is_option(letters))
}

fn reads_plainly(rest: &[Word]) -> bool {
    rest.iter().all(|word| {
        word.known().is_some_and(|text| {
            is_variable(text)
                || matches!(
                    text,
                    "-r" | "-s" | "-t" | "-ra" | "-a" | "-d" | "" | "-n" | "-p" | "-rp"
                )
        })
    })
}

/// Programs that may be asked for their version and nothing else. The list leaves out programs that
/// first run or fetch what files of the workspace name (yarn, pnpm, mvn, dotnet, pytest, go, jest,
/// and everything that rustup starts by `rust-toolchain.toml`) and those that ask a server for
/// updates (terraform, az).
fn only_tells_version(name: &str, rest: &[Word]) -> bool {
    const LONG: &str = "node python python3 npm npx bun deno ruby gem perl php javac gcc \
        g++ clang cc make cmake ninja docker podman helm pip pip3 uv poetry git bash zsh \
        psql mysql sqlite3 redis-cli gh aws gcloud tsc eslint prettier vite just swift \
        kotlin ghc nim julia R vim nvim openssl curl wget jq rg fd awk sed tar gzip sudo java";
    const CAPITAL: &str = "python python3 pip pip3 uv tmux gzip jq rg fd wget psql mysql ssh";
    const SMALL: &str = "node npm perl ruby php docker";
    const WHOLE_WORD: &str = "java javac ffmpeg sqlite3";
    let [word] = rest else { return false };
    let known = match word.known() {
        Some("--version") => LONG,
        Some("-V") => CAPITAL,
        Some("-v") => SMALL,
        Some("-version") => WHOLE_WORD,
        _ => return false,
    };
    is_one_of(known, name)
}

/// `tar tf x`, `tar -tzf x`, `tar --list --file=x`, with options that change the output format.
fn tar_only_lists(rest: &[Word]) -> bool {
    let texts: Option<Vec<&str>> = rest.iter().map(Word::known).collect();
    let Some([first, others @ ..]) = texts.as_deref() else { return false };
    let letters = first.strip_prefix('-').unwrap_or(first);
    let is_listing = letters.contains('t') && letters.chars().all(|c| "tvfzjJaZ".contains(c));
    // `host:file` is fetched from that host.
    is_listing && others.iter().all(|text| !text.starts_with('-') && !text.contains(':'))
}

fn unzip_only_lists(rest: &[Word]) -> bool {
    let [first, others @ ..] = rest else { return false };
    first.known().is_some_and(|text| matches!(text, "-l" | "-v" | "-lv" | "-Z" | "-Z1"))
        && others.iter().all(|word| !word.may_be_option())
}
