//! The safe list: which commands certainly do nothing but read and print. Every option of a program that has harmful
//! ones is looked at; what is not known is not safe.

use super::{
    Word, git,
    options::Options,
    programs::{Caution, Program},
    scripts,
};

/// Whether a command only looks. `more` says that words which nobody has seen are added to it.
pub(super) fn only_looks(name: &str, words: &[Word], more: bool) -> bool {
    let rest = words.get(1..).unwrap_or_default();
    match name {
        "git" => !more && git::only_looks(rest),
        "find" => !more && super::files::find_only_looks(rest),
        "sed" => !more && scripts::sed_only_looks(rest),
        "awk" | "gawk" | "mawk" | "nawk" => !more && scripts::awk_only_looks(rest),
        "tar" | "bsdtar" => !more && tar_only_lists(rest),
        "unzip" => !more && unzip_only_lists(rest),
        "cargo" => !more && cargo_only_looks(rest),
        "env" => rest.is_empty() && !more,
        "export" | "declare" | "typeset" | "readonly" | "local" => {
            rest.iter().all(is_plain_declaration)
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
    let Some(program) = Program::named(name) else { return false };
    let options = Options::scan(rest, program.valued);
    match program.caution {
        Caution::Never => has_plain_words(name, rest),
        Caution::Always => false,
        Caution::Only { letters, names } => {
            // Letters that take a value are as good as the others: the harmful ones are in neither list.
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

/// What some of the programs do with certain words whatever their options are.
fn has_plain_words(name: &str, rest: &[Word]) -> bool {
    match name {
        // The subscript of a variable is evaluated, and commands in it run.
        "printf" => rest.first().is_none_or(|word| !word.may_be_option() || word.is("--")),
        "test" | "[" => !rest
            .iter()
            .any(|word| word.is("-v") || word.is("-R") || word.is_open && word.prefix.is_empty()),
        "less" | "more" => {
            !rest.iter().any(|word| word.prefix.is_empty() || word.prefix.starts_with('+'))
        }
        "wait" => rest.iter().all(|word| !word.may_be_option()),
        _ => true,
    }
}

fn has_plain_operands(name: &str, options: &Options<'_>) -> bool {
    match name {
        // Any other operand sets the clock.
        "date" => options.operands.iter().all(|word| word.prefix.starts_with('+')),
        "hostname" => options.operands.is_empty(),
        _ => true,
    }
}

fn is_plain_declaration(word: &Word) -> bool {
    match word.prefix.split_once('=') {
        Some((name, _)) => is_variable(name) && !super::environment::is_risky(name),
        // `-i` makes the value arithmetic, `-n` a name of another variable, `-f` is about functions.
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

/// Programs that may be asked for their version and nothing else.
fn only_tells_version(name: &str, rest: &[Word]) -> bool {
    const KNOWN: &str = "node python python3 rustc rustup go npm npx pnpm yarn bun deno ruby gem perl php java javac gcc \
        g++ clang cc make cmake ninja docker podman kubectl helm terraform pip pip3 uv poetry git cargo rustfmt bash zsh \
        psql mysql sqlite3 redis-cli gh aws gcloud az tsc eslint prettier pytest jest vite just dotnet mvn gradle swift \
        kotlin scala ghc zig nim julia R tmux vim nvim ffmpeg openssl curl wget ssh jq rg fd awk sed tar gzip sudo";
    let [word] = rest else { return false };
    let Some(text) = word.known() else { return false };
    let is_version = matches!(text, "--version" | "-V" | "-version")
        || (name == "go" && matches!(text, "version" | "env"))
        || (matches!(name, "node" | "npm" | "java" | "perl") && text == "-v");
    // `-V` and `-version` are options of other meaning here.
    let is_version = is_version
        && !(text != "--version"
            && matches!(name, "curl" | "bash" | "zsh" | "make" | "ssh" | "vim"));
    is_version && KNOWN.split_whitespace().any(|known| known == name)
}

fn cargo_only_looks(rest: &[Word]) -> bool {
    let texts: Option<Vec<&str>> = rest.iter().map(Word::known).collect();
    let Some(texts) = texts else { return false };
    match texts.as_slice() {
        [
            "--version" | "-V" | "--list" | "-vV" | "version" | "locate-project" | "pkgid" | "help",
        ] => true,
        ["help", _] => true,
        ["metadata" | "tree", options @ ..] => {
            let is_value = |text: &&&str| !text.starts_with('-');
            const PLAIN: &[&str] = &[
                "--format-version",
                "--format-version=1",
                "--no-deps",
                "--offline",
                "--locked",
                "--frozen",
                "-p",
                "--package",
                "-i",
                "--invert",
                "-e",
                "--edges",
                "--depth",
                "--duplicates",
                "-d",
                "--workspace",
                "--all-features",
                "--no-default-features",
                "--features",
                "-F",
                "--prefix",
                "--charset",
                "-q",
                "--quiet",
                "--target",
                "--filter-platform",
                "-f",
                "--format",
            ];
            options.iter().filter(|text| !is_value(text)).all(|text| PLAIN.contains(text))
        }
        _ => false,
    }
}

/// `tar tf x`, `tar -tzf x`, `tar --list --file=x`, with the options that change how it is told.
fn tar_only_lists(rest: &[Word]) -> bool {
    let texts: Option<Vec<&str>> = rest.iter().map(Word::known).collect();
    let Some([first, others @ ..]) = texts.as_deref() else { return false };
    let letters = first.strip_prefix('-').unwrap_or(first);
    let is_listing = letters.contains('t') && letters.chars().all(|c| "tvfzjJaZ".contains(c));
    is_listing && others.iter().all(|text| !text.starts_with('-'))
}

fn unzip_only_lists(rest: &[Word]) -> bool {
    let [first, others @ ..] = rest else { return false };
    first.known().is_some_and(|text| matches!(text, "-l" | "-v" | "-lv" | "-Z" | "-Z1"))
        && others.iter().all(|word| !word.may_be_option())
}
