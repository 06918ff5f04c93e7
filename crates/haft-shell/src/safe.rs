//! The safe list: which commands certainly do nothing but read and print. Every option of a program that has harmful
//! ones is looked at; what is not known is not safe.

use super::{
    Word, git, is_one_of,
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
        "printf" => prints_plainly(rest),
        "test" | "[" => {
            tests_plainly(rest) && !rest.iter().any(|word| word.is_open && word.prefix.is_empty())
        }
        // `jobs -x` runs its words.
        "jobs" => rest.iter().all(|word| matches!(word.known(), Some("-l" | "-p" | "-r" | "-s"))),
        // `@file` stands for options that are in the file.
        "strings" | "readelf" | "nm" | "objdump" => {
            !rest.iter().any(|word| word.prefix.is_empty() || word.prefix.starts_with('@'))
        }
        // It is a script, and names with line ends have deceived it.
        "zgrep" => rest.iter().all(|word| word.known().is_some_and(|text| !text.contains('\n'))),
        // A page that is given as a file may bring others with it.
        "man" => rest.iter().all(|word| word.known().is_some_and(|text| !text.contains('/'))),
        // Programs of these languages may read other files.
        "jq" => rest.iter().all(|word| !has_any(word, &["import", "include", "modulemeta"])),
        "yq" => rest.iter().all(|word| !has_any(word, &["load", "import", "include"])),
        "less" | "more" => {
            !rest.iter().any(|word| word.prefix.is_empty() || word.prefix.starts_with('+'))
        }
        "wait" => rest.iter().all(|word| !word.may_be_option()),
        _ => true,
    }
}

/// Whether `printf` sets no variable: `-v name` does, and so does `%n` in its format.
pub(super) fn prints_plainly(rest: &[Word]) -> bool {
    let rest = match rest {
        [word, rest @ ..] if word.is("--") => rest,
        [word, ..] if word.may_be_option() => return false,
        _ => rest,
    };
    let Some(format) = rest.first() else { return true };
    let Some(text) = format.known() else { return rest.len() == 1 && !format.is_open };
    // Between the sign and the letter stand flags, widths and sizes.
    let is_between = |c: char| c.is_ascii_digit() || "-+ #'0*.hlLjztq".contains(c);
    let mut pieces = text.split('%').skip(1).filter(|piece| !piece.is_empty());
    !pieces.any(|piece| piece.trim_start_matches(is_between).starts_with('n'))
}

/// Whether `test` asks for no variable: the subscript of its name would be evaluated, and commands in it run.
pub(super) fn tests_plainly(rest: &[Word]) -> bool {
    let may_be = |word: &Word| match word.known() {
        Some(text) => matches!(text, "-v" | "-R"),
        None => "-v".starts_with(&word.prefix) || "-R".starts_with(&word.prefix),
    };
    // Any name is doubted after the plain sign, one that may hold a subscript after a sign that is not known.
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

fn has_plain_operands(name: &str, options: &Options<'_>) -> bool {
    match name {
        // Any other operand sets the clock.
        "date" => options.operands.iter().all(|word| word.prefix.starts_with('+')),
        // An operand is a file to read.
        "hostname" | "who" => options.operands.is_empty(),
        _ => true,
    }
}

/// Whether a word of `declare` and its kin sets a variable to a plain text.
fn is_plain_declaration(word: &Word, is_list: bool) -> bool {
    match word.prefix.split_once('=') {
        // A list in quotes is read again, and commands in it run.
        Some((name, value)) => {
            let is_text = match word.known() {
                Some(_) => !value.starts_with('('),
                None => !is_list && !word.is_open && !value.starts_with('('),
            };
            is_text && is_variable(name)
        }
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

/// Programs that may be asked for their version and nothing else. Not among them are those that first run or fetch what
/// files of the workspace name (yarn, pnpm, mvn, dotnet, pytest, go, jest, and what rustup starts by `rust-toolchain.toml`), or ask a server whether they are new (terraform, az).
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

/// `tar tf x`, `tar -tzf x`, `tar --list --file=x`, with the options that change how it is told.
fn tar_only_lists(rest: &[Word]) -> bool {
    let texts: Option<Vec<&str>> = rest.iter().map(Word::known).collect();
    let Some([first, others @ ..]) = texts.as_deref() else { return false };
    let letters = first.strip_prefix('-').unwrap_or(first);
    let is_listing = letters.contains('t') && letters.chars().all(|c| "tvfzjJaZ".contains(c));
    // `host:file` is fetched from there.
    is_listing && others.iter().all(|text| !text.starts_with('-') && !text.contains(':'))
}

fn unzip_only_lists(rest: &[Word]) -> bool {
    let [first, others @ ..] = rest else { return false };
    first.known().is_some_and(|text| matches!(text, "-l" | "-v" | "-lv" | "-Z" | "-Z1"))
        && others.iter().all(|word| !word.may_be_option())
}
