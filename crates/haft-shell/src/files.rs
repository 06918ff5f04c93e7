//! The files that the words of a known program name.

use super::{
    FileAction, Reach, Word, git, is_one_of,
    options::{GivenOption, ParsedOptions, Valued},
    programs::{KnownProgram, Operands},
    scripts, wrappers,
};

/// A file as a word, before its directory is known.
pub(super) struct NamedFile {
    pub(super) word: Word,
    pub(super) how: FileAction,
    pub(super) reach: Reach,
}

fn named(word: &Word, how: FileAction, is_tree: bool) -> NamedFile {
    NamedFile { word: word.clone(), how, reach: if is_tree { Reach::Tree } else { Reach::Itself } }
}

fn here(how: FileAction) -> NamedFile {
    named(&Word::exact("."), how, true)
}

/// Returns the files of a command. Unknown programs name none.
pub(super) fn of(name: &str, words: &[Word]) -> Vec<NamedFile> {
    let rest = words.get(1..).unwrap_or_default();
    match name {
        "sed" | "awk" | "gawk" | "mawk" | "nawk" => {
            let edits = name == "sed" && scripts::sed_edits(rest);
            let how = if edits { FileAction::Write } else { FileAction::Read };
            scripts::file_operands(name, rest)
                .into_iter()
                .map(|word| named(word, how, false))
                .collect()
        }
        "git" => git_files(rest),
        "find" => find_files(rest),
        "dd" => dd_files(rest),
        "tar" | "bsdtar" => tar_files(rest),
        "unzip" => unzip_files(rest),
        "curl" | "wget" => downloads(name, rest),
        "script" => {
            let valued = Valued { letters: "cEIoOBTm", names: "command" };
            let files = operands(rest, valued, usize::MAX);
            // Its default output file.
            let is_given = !files.is_empty();
            let default =
                (!is_given).then(|| named(&Word::exact("typescript"), FileAction::Write, false));
            files.into_iter().chain(default).collect()
        }
        "xargs" | "gxargs" => read_by_option("xargs", &ParsedOptions::scan(rest, wrappers::XARGS)),
        "flock" => operands(rest, Valued { letters: "wE", names: "timeout wait" }, 1),
        "strace" | "ltrace" | "time" => {
            written_by_option(rest, Valued { letters: "o", names: "output" })
        }
        _ => KnownProgram::named(name)
            .map(|program| by_table(name, program, rest))
            .unwrap_or_default(),
    }
}

/// The option letters that name an output file.
pub(super) fn output_letters(name: &str) -> &'static [char] {
    match name {
        "sort" | "tree" | "less" | "more" | "zstdcat" => &['o'],
        _ => &[],
    }
}

fn operands(rest: &[Word], valued: Valued, max: usize) -> Vec<NamedFile> {
    let options = ParsedOptions::scan(rest, valued);
    options.operands.iter().take(max).map(|word| named(word, FileAction::Write, false)).collect()
}

fn written_by_option(rest: &[Word], valued: Valued) -> Vec<NamedFile> {
    let options = ParsedOptions::scan(rest, valued);
    let is_output = |name: &str| matches!(name, "-o" | "--output");
    let written = options.given.iter().filter(|given| is_output(&given.name));
    let word = written.filter_map(|given| {
        given.word.cloned().or_else(|| given.value.as_deref().map(Word::exact))
    });
    word.map(|word| named(&word, FileAction::Write, false)).collect()
}

fn by_table(name: &str, program: &KnownProgram, rest: &[Word]) -> Vec<NamedFile> {
    let options = ParsedOptions::scan(rest, program.valued);
    let is_deep = goes_deep(name, &options);
    let operands = options.operands.as_slice();
    let mut files = Vec::new();
    let each = |words: &[&Word], how: FileAction, is_tree: bool| -> Vec<NamedFile> {
        words.iter().filter(|word| !word.is("-")).map(|word| named(word, how, is_tree)).collect()
    };
    match program.operands {
        Operands::Words => {}
        Operands::Read => files = each(operands, FileAction::Read, is_deep),
        Operands::ReadTree if operands.is_empty() => files.push(here(FileAction::Read)),
        Operands::ReadTree => files = each(operands, FileAction::Read, true),
        Operands::PatternThenRead | Operands::PatternThenTree => {
            files = searched(name, program, &options)
        }
        Operands::ReadOneWriteOne => {
            files = each(operands.get(..1).unwrap_or_default(), FileAction::Read, false);
            files.extend(each(operands.get(1..).unwrap_or_default(), FileAction::Write, false));
            // A pattern may expand to several names, and the second is written.
            let open = operands.first().filter(|word| word.is_open);
            files.extend(open.map(|word| named(word, FileAction::Write, false)));
        }
        // A file may be called `-`.
        Operands::Write => {
            files = operands.iter().map(|word| named(word, FileAction::Write, is_deep)).collect();
        }
        Operands::WordThenWrite => {
            let is_said = says_by_option(name, &options);
            let written = if is_said { operands } else { options.after_one_word() };
            files = written.iter().map(|word| named(word, FileAction::Write, is_deep)).collect();
        }
        // `install -d a b` creates both, and `-` is an ordinary name.
        Operands::CopyToLast if name == "install" && makes_folders(&options) => {
            files = operands.iter().map(|word| named(word, FileAction::Write, false)).collect();
        }
        Operands::CopyToLast | Operands::MoveToLast => {
            files = copied(name, program, &options, is_deep)
        }
        Operands::ScriptThenWords => {
            let has_text = options.has(&["-c", "-e", "-m", "-E", "--eval"]);
            let script = operands.get(..1).filter(|_| !has_text).unwrap_or_default();
            files = each(script, FileAction::Read, false);
        }
    }
    if !output_letters(name).is_empty() {
        files.extend(written_by_option(rest, program.valued));
    }
    // These programs list files without opening them.
    if matches!(name, "ls" | "dir" | "vdir" | "du" | "tree" | "fd" | "fdfind") {
        let trees = files.iter_mut().filter(|file| file.reach == Reach::Tree);
        trees.for_each(|file| file.reach = Reach::Names);
    }
    files.extend(read_by_option(name, &options));
    files
}

/// The files that options name, also by abbreviated option names.
fn read_by_option(name: &str, options: &ParsedOptions<'_>) -> Vec<NamedFile> {
    let (letters, long): (&[&str], &[&str]) = match name {
        "grep" | "egrep" | "fgrep" | "zgrep" => (&[], &["--exclude-from"]),
        "diff" => (&["-X"], &["--exclude-from", "--from-file", "--to-file", "--starting-file"]),
        "du" => (&["-X"], &["--exclude-from", "--files0-from"]),
        "hexdump" | "hd" => (&["-f"], &["--format-file"]),
        "xzcat" => (&[], &["--files", "--files0"]),
        "xargs" => (&["-a"], &["--arg-file"]),
        _ => return Vec::new(),
    };
    let is_file = |given: &&GivenOption<'_>| {
        letters.contains(&given.name.as_str()) || given.is_beginning_of(long)
    };
    let word = |given: &GivenOption<'_>| {
        given.word.cloned().or_else(|| given.value.as_deref().map(Word::exact))
    };
    let found = options.given.iter().filter(is_file).filter_map(word);
    let is_tree = name == "diff";
    found.filter(|word| !word.is("-")).map(|word| named(&word, FileAction::Read, is_tree)).collect()
}

/// Returns true when words that the parser cannot see may be among the files of a known program.
pub(super) fn are_uncertain(name: &str, words: &[Word]) -> bool {
    let rest = words.get(1..).unwrap_or_default();
    let Some(program) = KnownProgram::named(name).filter(|it| it.operands != Operands::Words)
    else {
        return false;
    };
    let options = ParsedOptions::scan(rest, program.valued);
    // `xxd a -b` writes to a file named `-b`.
    if program.operands == Operands::ReadOneWriteOne && options.has_late_option {
        return true;
    }
    // A checksum list names the files to read.
    let is_checksum = name.ends_with("sum");
    if is_checksum && (options.has(&["-c"]) || options.has_beginning_of(&["--check"])) {
        return true;
    }
    // The value of an option that may become several words: `head -n $x`.
    options.given.iter().filter_map(|given| given.word).any(|word| word.is_open)
}

/// Returns true when a directory operand stands for everything below it.
fn goes_deep(name: &str, options: &ParsedOptions<'_>) -> bool {
    let is_deep = |letters: &[&str]| {
        options.has(letters) || options.given.iter().any(|given| given.name.starts_with("--r"))
    };
    match name {
        // Given two directories it reads the files of both, without any option.
        "diff" => true,
        "rm" | "chmod" | "chown" | "chgrp" | "setfacl" | "scp" | "ls" | "dir" | "vdir" | "zcat"
        | "gzip" | "gunzip" => is_deep(&["-r", "-R"]),
        "cp" | "rsync" => is_deep(&["-r", "-R", "-a", "--archive"]),
        "grep" | "egrep" | "fgrep" | "zgrep" => {
            // `-d recurse`, `--directories=recurse`, `--dereference-recursive`.
            is_deep(&["-r", "-R", "-d"])
                || options.given.iter().any(|it| it.name.starts_with("--d"))
        }
        "mv" => true,
        _ => false,
    }
}

/// A pattern, unless an option gives it, then the places to search.
fn searched(name: &str, program: &KnownProgram, options: &ParsedOptions<'_>) -> Vec<NamedFile> {
    let is_given = options.has(&["-e", "-f", "--files", "--type-list"])
        || options.has_beginning_of(&["--regexp", "--file", "--from-file"]);
    let is_deep = program.operands == Operands::PatternThenTree || goes_deep(name, options);
    let places = if is_given { options.operands.as_slice() } else { options.after_one_word() };
    let mut files: Vec<NamedFile> = places
        .iter()
        .filter(|word| !word.is("-"))
        .map(|word| named(word, FileAction::Read, is_deep))
        .collect();
    // Without a place they search the current directory. The caller, which knows about the pipe,
    // handles input from a pipe.
    let has_no_place = options.operands.len() <= usize::from(!is_given);
    if has_no_place && is_deep {
        files.push(here(FileAction::Read));
    }
    let is_patterns = |name: &str| matches!(name, "-f" | "--file");
    let patterns = options.given.iter().filter(|given| is_patterns(&given.name) && name != "fd");
    files.extend(patterns.filter_map(|given| {
        let word = given.word.cloned().or_else(|| given.value.as_deref().map(Word::exact))?;
        Some(named(&word, FileAction::Read, false))
    }));
    files
}

/// Returns true when an option says what happens to the files: `chmod -x a`, `chown --reference=b
/// a`.
fn says_by_option(name: &str, options: &ParsedOptions<'_>) -> bool {
    let is_mode = |given: &GivenOption<'_>| {
        let letter = given.name.chars().nth(1);
        letter.is_some_and(|letter| "rwxXstugoa,+=01234567".contains(letter))
    };
    let has_long = options.has_beginning_of(&["--reference"]);
    match name {
        "chmod" => has_long || options.given.iter().any(is_mode),
        "setfacl" => !options.has(&["-m", "-x", "-M", "-X", "-s"]),
        _ => has_long,
    }
}

fn makes_folders(options: &ParsedOptions<'_>) -> bool {
    options.has(&["-d"]) || options.has_beginning_of(&["--directory"])
}

fn copied(
    name: &str,
    program: &KnownProgram,
    options: &ParsedOptions<'_>,
    is_deep: bool,
) -> Vec<NamedFile> {
    let source =
        if program.operands == Operands::MoveToLast { FileAction::Write } else { FileAction::Read };
    let target = options
        .given
        .iter()
        .find(|given| matches!(given.name.as_str(), "-t" | "--target-directory"));
    let target = target
        .and_then(|given| given.word.cloned().or_else(|| given.value.as_deref().map(Word::exact)));
    let mut operands = options.operands.clone();
    let target = target.or_else(|| operands.pop().cloned());
    // `host:path` is on another machine.
    let is_here = |word: &Word| {
        let first = word.prefix.split('/').next().unwrap_or_default();
        !matches!(name, "rsync" | "scp") || !first.contains(':')
    };
    // If the last word becomes several, some of them are sources.
    let sources = operands.into_iter().chain(target.as_ref().filter(|word| word.is_open));
    let sources = sources.filter(|word| is_here(word));
    let mut files: Vec<NamedFile> = sources.map(|word| named(word, source, is_deep)).collect();
    files.extend(target.filter(is_here).map(|word| named(&word, FileAction::Write, is_deep)));
    files
}

fn git_files(rest: &[Word]) -> Vec<NamedFile> {
    let shown = git::shown(rest);
    let end = git::subcommand(rest).unwrap_or(rest.len());
    let (before, after) = rest.split_at(end);
    let folders: Vec<&Word> = before
        .iter()
        .zip(before.iter().skip(1))
        .filter_map(|(word, value)| word.is("-C").then_some(value))
        .collect();
    let mut files: Vec<NamedFile> = Vec::new();
    for (word, is_tree) in shown
        .paths
        .iter()
        .copied()
        .map(|word| (word, true))
        .chain(shown.from_top.iter().map(|word| (word, !shown.is_one)))
    {
        files.push(named(word, FileAction::Read, is_tree));
        files.extend(below(&folders, word).map(|word| named(&word, FileAction::Read, is_tree)));
    }
    let is_here = shown.is_all && folders.is_empty();
    files.extend(folders.iter().map(|word| named(word, FileAction::Read, true)));
    files.extend(Some(here(FileAction::Read)).filter(|_| is_here));
    files.extend(written_by_option(after, Valued { letters: "", names: "output" }));
    files
}

/// Returns a path relative to the folders of `-C`.
fn below(folders: &[&Word], word: &Word) -> Option<Word> {
    let texts: Option<Vec<&str>> = folders.iter().map(|word| word.known()).collect();
    let texts = texts.filter(|texts| !texts.is_empty())?;
    let path = word.known().filter(|path| !path.starts_with(['/', '~']))?;
    Some(Word {
        is_from_top: word.is_from_top,
        ..Word::exact(&format!("{}/{path}", texts.join("/")))
    })
}

fn dd_files(rest: &[Word]) -> Vec<NamedFile> {
    let file = |word: &Word| {
        let (how, path) = match word.text.split_once('=')? {
            ("if", path) => (FileAction::Read, path),
            ("of", path) => (FileAction::Write, path),
            _ => return None,
        };
        let mut found = word.clone();
        path.clone_into(&mut found.text);
        let known = found.prefix.split_once('=').map(|(_, known)| known.to_owned());
        found.prefix = known.unwrap_or_default();
        found.has_tilde = path.starts_with("~/");
        // Here the position where the path begins is known.
        let is_plain = |c: char| c.is_alphanumeric() || "/._-~".contains(c);
        if found.has_tilde && path.chars().all(is_plain) {
            found.certainty = super::Certainty::Exact;
            path.clone_into(&mut found.prefix);
            return Some(NamedFile { word: found, how, reach: Reach::Itself });
        }
        Some(NamedFile { word: found, how, reach: Reach::Itself })
    };
    rest.iter().filter_map(file).collect()
}

fn tar_files(rest: &[Word]) -> Vec<NamedFile> {
    let old_style = rest.first().and_then(Word::known).filter(|text| !text.starts_with('-'));
    let letters: String = match old_style {
        Some(letters) => letters.to_owned(),
        None => rest
            .iter()
            .filter_map(|word| word.known())
            .filter(|text| text.starts_with('-') && !text.starts_with("--"))
            .collect(),
    };
    let has = |letter: char, name: &str| {
        letters.contains(letter) || rest.iter().any(|word| word.is(name))
    };
    let valued =
        Valued { letters: "fCTX", names: "file directory exclude exclude-from files-from" };
    let skipped = usize::from(old_style.is_some());
    let options = ParsedOptions::scan(rest.get(skipped..).unwrap_or_default(), valued);
    let mut operands = options.operands.iter();
    let archive = options.given.iter().find(|given| matches!(given.name.as_str(), "-f" | "--file"));
    let archive = archive
        .and_then(|given| given.word.cloned().or_else(|| given.value.as_deref().map(Word::exact)));
    let is_old_archive = old_style.is_some_and(|letters| letters.contains('f'));
    let archive =
        archive.or_else(|| operands.next().filter(|_| is_old_archive).map(|word| (*word).clone()));
    let directory =
        options.given.iter().find(|given| matches!(given.name.as_str(), "-C" | "--directory"));
    let directory = directory.and_then(|given| given.value.as_deref().map(Word::exact));
    let makes = has('c', "--create") || has('r', "--append") || has('u', "--update");
    let how = if makes { FileAction::Write } else { FileAction::Read };
    let mut files: Vec<NamedFile> =
        archive.iter().filter(|word| !word.is("-")).map(|word| named(word, how, false)).collect();
    if makes {
        files.extend(operands.map(|word| named(word, FileAction::Read, true)));
    } else if has('x', "--extract") {
        files.push(named(&directory.unwrap_or_else(|| Word::exact(".")), FileAction::Write, true));
    }
    files
}

fn unzip_files(rest: &[Word]) -> Vec<NamedFile> {
    let options = ParsedOptions::scan(rest, Valued { letters: "dx", names: "" });
    let mut files: Vec<NamedFile> =
        options.operands.iter().take(1).map(|word| named(word, FileAction::Read, false)).collect();
    if !options.has(&["-l", "-v", "-Z", "-t", "-p"]) {
        let directory = options.given.iter().find(|given| given.name == "-d");
        let directory = directory.and_then(|given| given.value.as_deref().map(Word::exact));
        files.push(named(&directory.unwrap_or_else(|| Word::exact(".")), FileAction::Write, true));
    }
    files
}

fn downloads(name: &str, rest: &[Word]) -> Vec<NamedFile> {
    let valued = match name {
        "curl" => Valued {
            letters: "AbcCdDeEFHKmoPQrtTuUwxXyYz",
            names: "data data-binary data-raw data-urlencode output user-agent header request url user proxy max-time \
                    connect-timeout retry form cookie cookie-jar upload-file config output-dir cacert cert key \
                    dump-header write-out resolve interface",
        },
        _ => Valued {
            letters: "OoaiPtTwQeUBDAR",
            names: "output-document output-file append-output input-file directory-prefix header user-agent timeout \
                    tries post-file post-data body-file",
        },
    };
    let options = ParsedOptions::scan(rest, valued);
    let mut files = Vec::new();
    for given in &options.given {
        let Some(value) = &given.value else { continue };
        let word = given.word.cloned().unwrap_or_else(|| Word::exact(value));
        let (how, word) = match (name, given.name.as_str()) {
            ("curl", "-o" | "--output" | "-c" | "--cookie-jar" | "-D" | "--dump-header") => {
                (FileAction::Write, word)
            }
            ("curl", "--output-dir") => (FileAction::Write, word),
            ("curl", "-T" | "--upload-file" | "-K" | "--config" | "-E" | "--cert" | "--key") => {
                (FileAction::Read, word)
            }
            (
                "curl",
                "-d" | "--data" | "--data-binary" | "--data-urlencode" | "-F" | "--form" | "-H"
                | "--header",
            ) => {
                let Some((_, path)) = value
                    .split_once('@')
                    .filter(|(before, _)| before.is_empty() || before.ends_with('='))
                else {
                    continue;
                };
                (FileAction::Read, Word { text: path.to_owned(), ..word })
            }
            (
                "wget",
                "-O" | "--output-document" | "-o" | "--output-file" | "-a" | "--append-output"
                | "-P" | "--directory-prefix",
            ) => (FileAction::Write, word),
            ("wget", "-i" | "--input-file" | "--post-file" | "--body-file") => {
                (FileAction::Read, word)
            }
            _ => continue,
        };
        if !word.is("-") {
            files.push(named(&word, how, false));
        }
    }
    let saves_here = match name {
        "curl" => options.has(&["-O", "--remote-name", "--remote-name-all", "-J"]),
        _ => !options.has(&["-O", "--output-document", "-P", "--directory-prefix", "--spider"]),
    };
    if saves_here {
        files.push(here(FileAction::Write));
    }
    files
}

/// The directories that find searches, before its expression begins.
pub(super) fn find_roots(rest: &[Word]) -> Vec<Word> {
    let is_option = |word: &&Word| matches!(word.known(), Some("-H" | "-L" | "-P"));
    let rest = rest.iter().skip_while(is_option);
    let is_root = |word: &&Word| {
        !word.prefix.starts_with('-') && !matches!(word.known(), Some("(" | ")" | "!" | ","))
    };
    let roots: Vec<Word> = rest.take_while(is_root).cloned().collect();
    if roots.is_empty() { vec![Word::exact(".")] } else { roots }
}

fn find_files(rest: &[Word]) -> Vec<NamedFile> {
    let roots = find_roots(rest);
    let deletes = rest.iter().any(|word| word.is("-delete"));
    let how = if deletes { FileAction::Write } else { FileAction::Read };
    let reach = if deletes { Reach::Tree } else { Reach::Names };
    let named_root = |word: &Word| NamedFile { word: word.clone(), how, reach };
    let mut files: Vec<NamedFile> = roots.iter().map(named_root).collect();
    let mut words = rest.iter();
    while let Some(word) = words.next() {
        match word.known() {
            Some("-fprint" | "-fprint0" | "-fls" | "-fprintf") => {
                files.extend(words.next().map(|word| named(word, FileAction::Write, false)));
            }
            Some("-newer" | "-samefile" | "-files0-from") => {
                files.extend(words.next().map(|word| named(word, FileAction::Read, false)));
            }
            _ => {}
        }
    }
    files
}

/// Returns true when find only prints: tests, `-print` and similar actions.
pub(super) fn find_is_read_only(rest: &[Word]) -> bool {
    const ALONE: &str = "-print -print0 -prune -depth -d -mount -xdev -empty -true -false -not -a -and -o -or ( ) ! , \
        -readable -writable -executable -nogroup -nouser -daystart -follow -noleaf -ls -quit -H -L -P";
    const VALUED: &str = "-name -iname -path -ipath -wholename -iwholename -regex -iregex -lname -ilname -type -xtype -size \
        -mtime -mmin -atime -amin -ctime -cmin -newer -anewer -cnewer -newermt -maxdepth -mindepth -perm -user -group -uid \
        -gid -links -inum -samefile -fstype -regextype -printf -used";
    let mut words = rest.iter();
    let mut is_expression = false;
    while let Some(word) = words.next() {
        let Some(text) = word.known() else {
            if is_expression || word.may_be_option() {
                return false;
            }
            continue;
        };
        if is_one_of(ALONE, text) {
            is_expression |= !matches!(text, "-H" | "-L" | "-P");
        } else if is_one_of(VALUED, text) {
            is_expression = true;
            if words.next().is_none_or(|word| word.is_open) {
                return false;
            }
        } else if text.starts_with('-') || is_expression {
            return false;
        }
    }
    true
}
