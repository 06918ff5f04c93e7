//! Which files the words of a known program name.

use super::{
    How, Reach, Word, git, is_one_of,
    options::{Given, Options, Valued},
    programs::{Operands, Program},
    scripts, wrappers,
};

/// A file as a word, before it is known where it lies.
pub(super) struct Named {
    pub(super) word: Word,
    pub(super) how: How,
    pub(super) reach: Reach,
}

fn named(word: &Word, how: How, is_tree: bool) -> Named {
    Named { word: word.clone(), how, reach: if is_tree { Reach::Tree } else { Reach::Itself } }
}

fn here(how: How) -> Named {
    named(&Word::exact("."), how, true)
}

/// The files of a command. Programs that are not known name none.
pub(super) fn of(name: &str, words: &[Word]) -> Vec<Named> {
    let rest = words.get(1..).unwrap_or_default();
    match name {
        "sed" | "awk" | "gawk" | "mawk" | "nawk" => {
            let edits = name == "sed" && scripts::sed_edits(rest);
            let how = if edits { How::Write } else { How::Read };
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
            // Where it is not told it writes to this one.
            let is_told = !files.is_empty();
            let usual = (!is_told).then(|| named(&Word::exact("typescript"), How::Write, false));
            files.into_iter().chain(usual).collect()
        }
        "xargs" | "gxargs" => read_by_option("xargs", &Options::scan(rest, wrappers::XARGS)),
        "flock" => operands(rest, Valued { letters: "wE", names: "timeout wait" }, 1),
        "strace" | "ltrace" | "time" => {
            written_by_option(rest, Valued { letters: "o", names: "output" })
        }
        _ => Program::named(name).map(|program| by_table(name, program, rest)).unwrap_or_default(),
    }
}

/// The letters by which a program is told to write to a file.
pub(super) fn output_letters(name: &str) -> &'static [char] {
    match name {
        "sort" | "tree" | "less" | "more" | "zstdcat" => &['o'],
        _ => &[],
    }
}

fn operands(rest: &[Word], valued: Valued, most: usize) -> Vec<Named> {
    let options = Options::scan(rest, valued);
    options.operands.iter().take(most).map(|word| named(word, How::Write, false)).collect()
}

fn written_by_option(rest: &[Word], valued: Valued) -> Vec<Named> {
    let options = Options::scan(rest, valued);
    let is_output = |name: &str| matches!(name, "-o" | "--output");
    let written = options.given.iter().filter(|given| is_output(&given.name));
    let word = written.filter_map(|given| {
        given.word.cloned().or_else(|| given.value.as_deref().map(Word::exact))
    });
    word.map(|word| named(&word, How::Write, false)).collect()
}

fn by_table(name: &str, program: &Program, rest: &[Word]) -> Vec<Named> {
    let options = Options::scan(rest, program.valued);
    let is_deep = goes_deep(name, &options);
    let operands = options.operands.as_slice();
    let mut files = Vec::new();
    let each = |words: &[&Word], how: How, is_tree: bool| -> Vec<Named> {
        words.iter().filter(|word| !word.is("-")).map(|word| named(word, how, is_tree)).collect()
    };
    match program.operands {
        Operands::Words => {}
        Operands::Read => files = each(operands, How::Read, is_deep),
        Operands::ReadTree if operands.is_empty() => files.push(here(How::Read)),
        Operands::ReadTree => files = each(operands, How::Read, true),
        Operands::PatternThenRead | Operands::PatternThenTree => {
            files = searched(name, program, &options)
        }
        Operands::ReadOneWriteOne => {
            files = each(operands.get(..1).unwrap_or_default(), How::Read, false);
            files.extend(each(operands.get(1..).unwrap_or_default(), How::Write, false));
            // A pattern may become several names, and the second is written.
            let open = operands.first().filter(|word| word.is_open);
            files.extend(open.map(|word| named(word, How::Write, false)));
        }
        // A file may be called `-`.
        Operands::Write => {
            files = operands.iter().map(|word| named(word, How::Write, is_deep)).collect();
        }
        Operands::WordThenWrite => {
            let is_said = says_by_option(name, &options);
            let written = if is_said { operands } else { options.after_one_word() };
            files = written.iter().map(|word| named(word, How::Write, is_deep)).collect();
        }
        // `install -d a b` makes both, and `-` is a name like any other.
        Operands::CopyToLast if name == "install" && makes_folders(&options) => {
            files = operands.iter().map(|word| named(word, How::Write, false)).collect();
        }
        Operands::CopyToLast | Operands::MoveToLast => {
            files = copied(name, program, &options, is_deep)
        }
        Operands::ScriptThenWords => {
            let has_text = options.has(&["-c", "-e", "-m", "-E", "--eval"]);
            let script = operands.get(..1).filter(|_| !has_text).unwrap_or_default();
            files = each(script, How::Read, false);
        }
    }
    if !output_letters(name).is_empty() {
        files.extend(written_by_option(rest, program.valued));
    }
    // These open no file, they only tell which there are.
    if matches!(name, "ls" | "dir" | "vdir" | "du" | "tree" | "fd" | "fdfind") {
        let trees = files.iter_mut().filter(|file| file.reach == Reach::Tree);
        trees.for_each(|file| file.reach = Reach::Names);
    }
    files.extend(read_by_option(name, &options));
    files
}

/// The files that options name, however much of an option's name was written.
fn read_by_option(name: &str, options: &Options<'_>) -> Vec<Named> {
    let (letters, long): (&[&str], &[&str]) = match name {
        "grep" | "egrep" | "fgrep" | "zgrep" => (&[], &["--exclude-from"]),
        "diff" => (&["-X"], &["--exclude-from", "--from-file", "--to-file", "--starting-file"]),
        "du" => (&["-X"], &["--exclude-from", "--files0-from"]),
        "hexdump" | "hd" => (&["-f"], &["--format-file"]),
        "xzcat" => (&[], &["--files", "--files0"]),
        "xargs" => (&["-a"], &["--arg-file"]),
        _ => return Vec::new(),
    };
    let is_file =
        |given: &&Given<'_>| letters.contains(&given.name.as_str()) || given.is_beginning_of(long);
    let word =
        |given: &Given<'_>| given.word.cloned().or_else(|| given.value.as_deref().map(Word::exact));
    let found = options.given.iter().filter(is_file).filter_map(word);
    let is_tree = name == "diff";
    found.filter(|word| !word.is("-")).map(|word| named(&word, How::Read, is_tree)).collect()
}

/// Whether words that nobody can see may be among the files of a known program.
pub(super) fn are_uncertain(name: &str, words: &[Word]) -> bool {
    let rest = words.get(1..).unwrap_or_default();
    let Some(program) = Program::named(name).filter(|it| it.operands != Operands::Words) else {
        return false;
    };
    let options = Options::scan(rest, program.valued);
    // `xxd a -b` writes to a file of that name.
    if program.operands == Operands::ReadOneWriteOne && options.has_late_option {
        return true;
    }
    // A list of checksums names the files to read.
    let is_checksum = name.ends_with("sum");
    if is_checksum && (options.has(&["-c"]) || options.has_beginning_of(&["--check"])) {
        return true;
    }
    // The value of an option that becomes several words: `head -n $x`.
    options.given.iter().filter_map(|given| given.word).any(|word| word.is_open)
}

/// Whether a directory among the operands stands for all that is below it.
fn goes_deep(name: &str, options: &Options<'_>) -> bool {
    let is_deep = |letters: &[&str]| {
        options.has(letters) || options.given.iter().any(|given| given.name.starts_with("--r"))
    };
    match name {
        // Of two directories it reads the files of both, without any option.
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

/// A pattern, unless an option gives it, then where to search.
fn searched(name: &str, program: &Program, options: &Options<'_>) -> Vec<Named> {
    let is_given = options.has(&["-e", "-f", "--files", "--type-list"])
        || options.has_beginning_of(&["--regexp", "--file", "--from-file"]);
    let is_deep = program.operands == Operands::PatternThenTree || goes_deep(name, options);
    let places = if is_given { options.operands.as_slice() } else { options.after_one_word() };
    let mut files: Vec<Named> = places
        .iter()
        .filter(|word| !word.is("-"))
        .map(|word| named(word, How::Read, is_deep))
        .collect();
    // Without a place they search here. What comes by a pipe is told apart by the caller, who sees the pipe.
    let has_no_place = options.operands.len() <= usize::from(!is_given);
    if has_no_place && is_deep {
        files.push(here(How::Read));
    }
    let is_patterns = |name: &str| matches!(name, "-f" | "--file");
    let patterns = options.given.iter().filter(|given| is_patterns(&given.name) && name != "fd");
    files.extend(patterns.filter_map(|given| {
        let word = given.word.cloned().or_else(|| given.value.as_deref().map(Word::exact))?;
        Some(named(&word, How::Read, false))
    }));
    files
}

/// Whether what is to become of the files is said by an option: `chmod -x a`, `chown --reference=b a`.
fn says_by_option(name: &str, options: &Options<'_>) -> bool {
    let is_mode = |given: &Given<'_>| {
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

fn makes_folders(options: &Options<'_>) -> bool {
    options.has(&["-d"]) || options.has_beginning_of(&["--directory"])
}

fn copied(name: &str, program: &Program, options: &Options<'_>, is_deep: bool) -> Vec<Named> {
    let source = if program.operands == Operands::MoveToLast { How::Write } else { How::Read };
    let target = options
        .given
        .iter()
        .find(|given| matches!(given.name.as_str(), "-t" | "--target-directory"));
    let target = target
        .and_then(|given| given.word.cloned().or_else(|| given.value.as_deref().map(Word::exact)));
    let mut operands = options.operands.clone();
    let target = target.or_else(|| operands.pop().cloned());
    // `host:path` lies elsewhere.
    let is_here = |word: &Word| {
        let first = word.prefix.split('/').next().unwrap_or_default();
        !matches!(name, "rsync" | "scp") || !first.contains(':')
    };
    // A last word that becomes several is the sources as well.
    let sources = operands.into_iter().chain(target.as_ref().filter(|word| word.is_open));
    let sources = sources.filter(|word| is_here(word));
    let mut files: Vec<Named> = sources.map(|word| named(word, source, is_deep)).collect();
    files.extend(target.filter(is_here).map(|word| named(&word, How::Write, is_deep)));
    files
}

fn git_files(rest: &[Word]) -> Vec<Named> {
    let shown = git::shown(rest);
    let end = git::subcommand(rest).unwrap_or(rest.len());
    let (before, after) = rest.split_at(end);
    let folders: Vec<&Word> = before
        .iter()
        .zip(before.iter().skip(1))
        .filter_map(|(word, value)| word.is("-C").then_some(value))
        .collect();
    let mut files: Vec<Named> = Vec::new();
    for (word, is_tree) in shown
        .paths
        .iter()
        .copied()
        .map(|word| (word, true))
        .chain(shown.from_top.iter().map(|word| (word, !shown.is_one)))
    {
        files.push(named(word, How::Read, is_tree));
        files.extend(below(&folders, word).map(|word| named(&word, How::Read, is_tree)));
    }
    let is_here = shown.is_all && folders.is_empty();
    files.extend(folders.iter().map(|word| named(word, How::Read, true)));
    files.extend(Some(here(How::Read)).filter(|_| is_here));
    files.extend(written_by_option(after, Valued { letters: "", names: "output" }));
    files
}

/// A path as it is meant after `-C`.
fn below(folders: &[&Word], word: &Word) -> Option<Word> {
    let texts: Option<Vec<&str>> = folders.iter().map(|word| word.known()).collect();
    let texts = texts.filter(|texts| !texts.is_empty())?;
    let path = word.known().filter(|path| !path.starts_with(['/', '~']))?;
    Some(Word {
        is_from_top: word.is_from_top,
        ..Word::exact(&format!("{}/{path}", texts.join("/")))
    })
}

fn dd_files(rest: &[Word]) -> Vec<Named> {
    let file = |word: &Word| {
        let (how, path) = match word.text.split_once('=')? {
            ("if", path) => (How::Read, path),
            ("of", path) => (How::Write, path),
            _ => return None,
        };
        let mut found = word.clone();
        path.clone_into(&mut found.text);
        let known = found.prefix.split_once('=').map(|(_, known)| known.to_owned());
        found.prefix = known.unwrap_or_default();
        found.has_tilde = path.starts_with("~/");
        // Here it is known where the name ends and the path begins.
        let is_plain = |c: char| c.is_alphanumeric() || "/._-~".contains(c);
        if found.has_tilde && path.chars().all(is_plain) {
            found.certainty = super::Certainty::Exact;
            path.clone_into(&mut found.prefix);
            return Some(Named { word: found, how, reach: Reach::Itself });
        }
        Some(Named { word: found, how, reach: Reach::Itself })
    };
    rest.iter().filter_map(file).collect()
}

fn tar_files(rest: &[Word]) -> Vec<Named> {
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
    let options = Options::scan(rest.get(skipped..).unwrap_or_default(), valued);
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
    let how = if makes { How::Write } else { How::Read };
    let mut files: Vec<Named> =
        archive.iter().filter(|word| !word.is("-")).map(|word| named(word, how, false)).collect();
    if makes {
        files.extend(operands.map(|word| named(word, How::Read, true)));
    } else if has('x', "--extract") {
        files.push(named(&directory.unwrap_or_else(|| Word::exact(".")), How::Write, true));
    }
    files
}

fn unzip_files(rest: &[Word]) -> Vec<Named> {
    let options = Options::scan(rest, Valued { letters: "dx", names: "" });
    let mut files: Vec<Named> =
        options.operands.iter().take(1).map(|word| named(word, How::Read, false)).collect();
    if !options.has(&["-l", "-v", "-Z", "-t", "-p"]) {
        let directory = options.given.iter().find(|given| given.name == "-d");
        let directory = directory.and_then(|given| given.value.as_deref().map(Word::exact));
        files.push(named(&directory.unwrap_or_else(|| Word::exact(".")), How::Write, true));
    }
    files
}

fn downloads(name: &str, rest: &[Word]) -> Vec<Named> {
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
    let options = Options::scan(rest, valued);
    let mut files = Vec::new();
    for given in &options.given {
        let Some(value) = &given.value else { continue };
        let word = given.word.cloned().unwrap_or_else(|| Word::exact(value));
        let (how, word) = match (name, given.name.as_str()) {
            ("curl", "-o" | "--output" | "-c" | "--cookie-jar" | "-D" | "--dump-header") => {
                (How::Write, word)
            }
            ("curl", "--output-dir") => (How::Write, word),
            ("curl", "-T" | "--upload-file" | "-K" | "--config" | "-E" | "--cert" | "--key") => {
                (How::Read, word)
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
                (How::Read, Word { text: path.to_owned(), ..word })
            }
            (
                "wget",
                "-O" | "--output-document" | "-o" | "--output-file" | "-a" | "--append-output"
                | "-P" | "--directory-prefix",
            ) => (How::Write, word),
            ("wget", "-i" | "--input-file" | "--post-file" | "--body-file") => (How::Read, word),
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
        files.push(here(How::Write));
    }
    files
}

/// What find looks through, before its expression begins.
pub(super) fn find_roots(rest: &[Word]) -> Vec<Word> {
    let is_option = |word: &&Word| matches!(word.known(), Some("-H" | "-L" | "-P"));
    let rest = rest.iter().skip_while(is_option);
    let is_root = |word: &&Word| {
        !word.prefix.starts_with('-') && !matches!(word.known(), Some("(" | ")" | "!" | ","))
    };
    let roots: Vec<Word> = rest.take_while(is_root).cloned().collect();
    if roots.is_empty() { vec![Word::exact(".")] } else { roots }
}

fn find_files(rest: &[Word]) -> Vec<Named> {
    let roots = find_roots(rest);
    let deletes = rest.iter().any(|word| word.is("-delete"));
    let how = if deletes { How::Write } else { How::Read };
    let reach = if deletes { Reach::Tree } else { Reach::Names };
    let named_root = |word: &Word| Named { word: word.clone(), how, reach };
    let mut files: Vec<Named> = roots.iter().map(named_root).collect();
    let mut words = rest.iter();
    while let Some(word) = words.next() {
        match word.known() {
            Some("-fprint" | "-fprint0" | "-fls" | "-fprintf") => {
                files.extend(words.next().map(|word| named(word, How::Write, false)));
            }
            Some("-newer" | "-samefile" | "-files0-from") => {
                files.extend(words.next().map(|word| named(word, How::Read, false)));
            }
            _ => {}
        }
    }
    files
}

/// Whether find only tells: tests, `-print` and its kin.
pub(super) fn find_only_looks(rest: &[Word]) -> bool {
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
