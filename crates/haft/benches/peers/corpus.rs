//! The data to measure on: a tree of source-like files, a large log, a long source file and a full
//! directory. It is the same on every machine.

use std::{
    fmt::Write as _,
    fs,
    io::{self, BufWriter, Write},
    path::{Path, PathBuf},
};

/// Occurs once, in one file of the tree.
pub(super) const RARE: &str = "zq_unique_needle_7f3a9c";
/// Occurs in about every seventieth line.
pub(super) const COMMON: &str = "config";
/// Occurs once each in 200 files.
pub(super) const REGEX: &str = r"(acquire|release)_[a-z]+_lease_[0-9]{4}\(";
const REGEX_HITS: usize = 200;
/// Matches three files.
pub(super) const FEW: &str = "*_needlefile.rs";
/// Occurs once in the long source file.
pub(super) const MARKER: &str = "let marker_value_unique = \"AAAA\";";
const LONG_LINES: usize = 5_000;

const WORDS: &[&str] = &[
    "buffer", "cache", "channel", "client", "codec", "commit", "cursor", "decode", "delta",
    "driver", "engine", "entry", "error", "event", "filter", "flush", "frame", "graph", "guard",
    "handle", "index", "kernel", "layer", "limit", "loader", "matrix", "metric", "module", "node",
    "object", "offset", "packet", "parse", "pool", "queue", "reader", "record", "region", "result",
    "router", "schema", "scope", "server", "shard", "signal", "slice", "socket", "stage", "state",
    "store", "stream", "symbol", "table", "target", "thread", "token", "trace", "vector", "worker",
];
/// File extensions and their percentages.
const ENDINGS: &[(&str, u64)] = &[
    ("rs", 30),
    ("ts", 24),
    ("py", 16),
    ("go", 10),
    ("c", 6),
    ("md", 6),
    ("json", 5),
    ("toml", 3),
];
const LOG_BYTES: usize = 200_000_000;

/// The folders and files.
pub(super) struct Corpus {
    pub(super) folder: PathBuf,
    pub(super) log_lines: u64,
}

impl Corpus {
    pub(super) fn make(folder: &Path, files: usize) -> io::Result<Self> {
        fs::create_dir_all(folder)?;
        let mut dice = PseudoRandom(0x9e37_79b9_7f4a_7c15);
        make_tree(&folder.join("tree"), files, &mut dice)?;
        make_full_directory(&folder.join("dir1000"))?;
        make_long_file(&folder.join("long.rs"), &mut dice)?;
        let line = |number| format!("{number:02} a line of a small file, about fifty bytes long\n");
        fs::write(folder.join("small.txt"), (0..38).map(line).collect::<String>())?;
        let log_lines = make_log(&folder.join("big.log"), &mut dice)?;
        Ok(Self { folder: folder.to_owned(), log_lines })
    }
}

/// Deterministic pseudo-random numbers.
struct PseudoRandom(u64);

impl PseudoRandom {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % (limit as u64)).unwrap_or(0)
    }

    fn word(&mut self) -> &'static str {
        WORDS[self.below(WORDS.len())]
    }
}

fn make_tree(tree: &Path, files: usize, dice: &mut PseudoRandom) -> io::Result<()> {
    let mut folders = vec![tree.to_owned()];
    while folders.len() < (files / 12).max(20) {
        let above = folders[dice.below(folders.len())].clone();
        let name = format!("{}{}", dice.word(), dice.below(100));
        let depth = above.strip_prefix(tree).map_or(0, |below| below.components().count());
        let folder = above.join(name);
        if depth < 6 && !folders.contains(&folder) {
            folders.push(folder);
        }
    }
    folders.iter().try_for_each(fs::create_dir_all)?;
    let rare = files * 3 / 4;
    let few = [files / 5, files / 2, files * 4 / 5];
    for number in 0..files {
        let is_few = few.contains(&number);
        let ending = if is_few { "rs" } else { ending(dice.below(100) as u64) };
        let mark = if is_few { "_needlefile" } else { "" };
        let name = format!("{}_{number}{mark}.{ending}", dice.word());
        let mut text = String::new();
        let lines = 20 + dice.below(40) * dice.below(10);
        for line in 0..lines {
            source_line(&mut text, dice);
            if line == lines / 2 && number == rare {
                let _ = writeln!(text, "    // see {RARE} for why");
            }
            if line == lines / 3
                && number % (files / REGEX_HITS) == 0
                && number / (files / REGEX_HITS) < REGEX_HITS
            {
                let _ = writeln!(
                    text,
                    "    acquire_{}_lease_{}(x);",
                    dice.word(),
                    1000 + dice.below(8999)
                );
            }
        }
        fs::write(folders[dice.below(folders.len())].join(name), text)?;
    }
    Ok(())
}

fn ending(roll: u64) -> &'static str {
    let mut sum = 0;
    let found = ENDINGS.iter().find(|(_, share)| {
        sum += share;
        roll < sum
    });
    found.map_or("rs", |(ending, _)| ending)
}

fn source_line(text: &mut String, dice: &mut PseudoRandom) {
    let (a, b, c, d) = (dice.word(), dice.word(), dice.word(), dice.word());
    let number = dice.below(10_000);
    let a = if dice.below(70) == 0 { COMMON } else { a };
    let _ = match dice.below(5) {
        0 => writeln!(text, "    let {a}_{b} = self.{c}.{d}(&{a}, {number})?;"),
        1 => writeln!(text, "pub fn {a}_{b}_{number}({c}: &{d}) -> Result<{a}, Error> {{"),
        2 => writeln!(
            text,
            "        match {a}.{b}() {{ Some({c}) => {c}.{d}({number}), None => return }}"
        ),
        3 => writeln!(text, "    /// {a} the {b} of {c}, then {d} it unless the {a} is closed."),
        _ => writeln!(text, "}}"),
    };
}

fn make_full_directory(folder: &Path) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    for number in 0..1000 {
        let name = format!("{}_{number:04}", WORDS[number % WORDS.len()]);
        if number % 10 == 0 {
            fs::create_dir_all(folder.join(name))?;
        } else {
            fs::write(folder.join(format!("{name}.txt")), "x")?;
        }
    }
    Ok(())
}

fn make_long_file(path: &Path, dice: &mut PseudoRandom) -> io::Result<()> {
    let mut text = String::new();
    for line in 0..LONG_LINES {
        if line == LONG_LINES / 2 {
            let _ = writeln!(text, "    {MARKER}");
        } else {
            source_line(&mut text, dice);
        }
    }
    fs::write(path, text)
}

fn make_log(path: &Path, dice: &mut PseudoRandom) -> io::Result<u64> {
    let mut log = BufWriter::with_capacity(1 << 20, fs::File::create(path)?);
    let (mut written, mut number) = (0, 0);
    while written < LOG_BYTES {
        number += 1;
        let mut line = format!("{number:09} level=info mod={} msg=", dice.word());
        for _ in 0..3 + dice.below(9) {
            line.push_str(dice.word());
            line.push(' ');
        }
        line.push('\n');
        written += line.len();
        log.write_all(line.as_bytes())?;
    }
    log.flush()?;
    Ok(number)
}
