//! `cargo xtask order`: which functions a start needs, told to the linker by `crates/haft/start.ld`. It lays them side by side:
//! scattered over the program they cost a page fault each, and those are a fifth of what a client waits for its tools.
//!
//! Names are as the linker knows them, with a hash at the end that compilers and features change. So most are written without
//! it. Of those that many functions share (`FnOnce::call_once`) the right one is named with its hash first, and then all of
//! them for when that hash is not theirs any more. A name that is gone matches nothing: an old file makes a slower start.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
    fs,
    path::Path,
    process::Stdio,
};

use anyhow::{Context, Result, bail};

use crate::{programs, shell};

const SCRIPT: &str = "crates/haft/start.ld";
const HEAD: &str = "/* What a start runs, side by side. Written by `cargo xtask order`; see there, and build.rs. */\n";
/// What the kernel maps around a page that is touched.
const WINDOW: u64 = 64 << 10;
/// So many bytes of others may come along with a name that is written without its hash.
const FEW: u64 = 1 << 10;

/// A start as the program sees it: its arguments, and what comes in.
struct Session {
    arguments: &'static [&'static str],
    input: &'static str,
}

/// What the first one runs lies together, and then what the others run besides.
const SESSIONS: &[Session] = &[
    Session {
        arguments: &["mcp", "--root", ".", "--root", "further"],
        input: concat!(
            r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","#,
            r#""capabilities":{},"clientInfo":{"name":"xtask","version":"1"}}}"#,
            "\n",
            r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#,
            "\n",
            r#"{"jsonrpc":"2.0","id":2,"method":"tools/list","params":{}}"#,
            "\n",
        ),
    },
    Session { arguments: &["read", "input"], input: "one\ntwo\n" },
];

pub(crate) fn run() -> Result<()> {
    if !shell::works(&["valgrind", "--version"]) || !shell::works(&["nm", "--version"]) {
        bail!("valgrind and nm are needed to see which functions run");
    }
    let haft = programs::with_names("haft")?;
    let sizes = sizes(&shell::capture(&["nm", "--print-size", "--defined-only", text(&haft)?])?);
    let mut used = BTreeMap::new();
    for (number, session) in SESSIONS.iter().enumerate() {
        for name in functions(&watched(&haft, session)?) {
            if sizes.contains_key(&name) {
                used.entry(name).or_insert(number);
            }
        }
    }
    println!("{} of {} functions run at a start", used.len(), sizes.len());
    fs::write(shell::root().join(SCRIPT), script(&sizes, &used))
        .with_context(|| format!("{SCRIPT} cannot be written"))
}

/// What valgrind writes down of a session, in a folder where haft finds no settings and may leave its records.
fn watched(haft: &Path, session: &Session) -> Result<String> {
    let home = haft.with_file_name("xtask-order-home");
    fs::create_dir_all(home.join("further"))
        .with_context(|| format!("{} cannot be made", home.display()))?;
    let (input, seen) = (home.join("input"), home.join("seen"));
    fs::write(&input, session.input)?;
    let out = format!("--callgrind-out-file={}", text(&seen)?);
    let words = ["valgrind", "--quiet", "--tool=callgrind", "--demangle=no", &out, text(haft)?];
    let mut command = shell::command(&words);
    command.args(session.arguments).current_dir(&home);
    command
        .envs(["HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME"].map(|it| (it, &home)));
    // It would tell of every system call that is younger than itself.
    command.stdin(fs::File::open(&input)?).stdout(Stdio::null()).stderr(Stdio::null());
    let status = command.status().context("valgrind could not be started")?;
    if !status.success() {
        bail!("`haft {}` ended with {status}", session.arguments.join(" "));
    }
    let seen = fs::read_to_string(&seen)?;
    fs::remove_dir_all(&home).with_context(|| format!("{} cannot be emptied", home.display()))?;
    Ok(seen)
}

fn text(path: &Path) -> Result<&str> {
    path.to_str().with_context(|| format!("{} is not utf-8", path.display()))
}

/// `ADDRESS SIZE KIND NAME` lines, those of functions.
fn sizes(listed: &str) -> BTreeMap<String, u64> {
    let line = |line: &str| {
        let [_, size, kind, name] = line.split(' ').collect::<Vec<_>>()[..] else { return None };
        let size = u64::from_str_radix(size, 16).ok()?;
        kind.eq_ignore_ascii_case("t").then(|| (name.to_owned(), size))
    };
    listed.lines().filter_map(line).collect()
}

/// The names that callgrind introduces: `fn=(7) NAME`, with `'2` at the end for one that calls itself.
fn functions(seen: &str) -> BTreeSet<String> {
    let name = |line: &str| {
        let (_, name) =
            line.strip_prefix('c').unwrap_or(line).strip_prefix("fn=(")?.split_once(") ")?;
        Some(name.split('\'').next().unwrap_or(name).to_owned())
    };
    seen.lines().filter_map(name).collect()
}

/// `used` has the number of the first session that runs a function.
fn script(sizes: &BTreeMap<String, u64>, used: &BTreeMap<String, usize>) -> String {
    let mut families: BTreeMap<String, Family<'_>> = BTreeMap::new();
    for (name, size) in sizes {
        let family = families.entry(without_hash(name)).or_default();
        match used.get(name) {
            Some(session) => family.used.push((*session, name)),
            None => family.strangers += size,
        }
    }
    let mut lines: Vec<(usize, &str)> = Vec::new();
    for (name, family) in &families {
        let Some((first, _)) = family.used.iter().min() else { continue };
        if family.strangers <= FEW {
            lines.push((*first, name));
        } else {
            lines.extend(&family.used);
            if family.is_worth_taking_whole() {
                lines.push((usize::MAX, name));
            }
        }
    }
    lines.sort_unstable();
    let mut script = format!("{HEAD}SECTIONS\n{{\n  .text.start : {{\n");
    for (_, name) in lines {
        // The compiler keeps apart what it takes for cold, as everything is that is done once.
        let _ = writeln!(script, "    *(.text.{name} .text.unlikely.{name})");
    }
    script.push_str("  }\n}\nINSERT BEFORE .text;\n");
    script
}

/// Functions whose names differ in the hash only.
#[derive(Default)]
struct Family<'a> {
    used: Vec<(usize, &'a str)>,
    /// How many bytes the others have.
    strangers: u64,
}

impl Family<'_> {
    /// Whether fewer pages are touched when all of them are taken than when all are left where they are, about.
    fn is_worth_taking_whole(&self) -> bool {
        self.strangers * 3 <= WINDOW * self.used.len() as u64
    }
}

/// `…17h0123456789abcdefE` and what LLVM adds, or the `Cs1a2b3c_` before the names of crates.
fn without_hash(name: &str) -> String {
    const DIGITS: usize = 16;
    if let Some((path, hash)) = name.rsplit_once("17h")
        && hash.len() > DIGITS
        && hash.bytes().take(DIGITS).all(|byte| byte.is_ascii_hexdigit())
    {
        return format!("{path}17h*");
    }
    let mut parts = name.split("Cs");
    let mut kept = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        match part.split_once('_') {
            Some((hash, rest)) if hash.bytes().all(|byte| byte.is_ascii_alphanumeric()) => {
                let _ = write!(kept, "Cs*_{rest}");
            }
            _ => {
                let _ = write!(kept, "Cs{part}");
            }
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: &str = "_ZN4haft3run17h0123456789abcdefE";
    const CALL: &str = "_ZN4core9call_once17h";

    #[test]
    fn names_are_written_without_what_compilers_change() {
        assert_eq!(without_hash(ONE), "_ZN4haft3run17h*");
        assert_eq!(without_hash(&format!("{ONE}.llvm.123")), "_ZN4haft3run17h*");
        assert_eq!(without_hash("_RNvNtCs9Zx_3std3envCsA_3foo"), "_RNvNtCs*_3std3envCs*_3foo");
        assert_eq!(without_hash("main"), "main");
    }

    #[test]
    fn what_ran_is_read_from_callgrind_and_sizes_from_nm() {
        let seen = functions("fn=(1) a\ncfn=(2) b'2\nfn=(1)\n12 13\nfl=(1) x.c\n");
        assert_eq!(seen, BTreeSet::from(["a".to_owned(), "b".to_owned()]));
        let sizes = sizes("0010 0a t a\n0020 ff T b\n0030 08 d data\n0040 T without\n");
        assert_eq!(sizes, BTreeMap::from([("a".to_owned(), 10), ("b".to_owned(), 255)]));
    }

    #[test]
    fn who_runs_first_lies_first_and_a_shared_name_is_told_with_its_hash() {
        let hashed = |number: u64| format!("{CALL}{number:016x}E");
        let mut sizes: BTreeMap<String, u64> = (0..9).map(|it| (hashed(it), 2_000)).collect();
        sizes.insert(ONE.to_owned(), 70_000);
        let used = BTreeMap::from([(ONE.to_owned(), 1), (hashed(3), 0)]);
        let all = format!("{CALL}*");
        let script = script(&sizes, &used);
        let names: Vec<&str> = script
            .lines()
            .filter_map(|line| line.trim().strip_prefix("*(.text.")?.split(' ').next())
            .collect();
        assert_eq!(names, [&hashed(3), "_ZN4haft3run17h*", &all]);
    }

    #[test]
    fn a_crowd_is_left_where_it_is() {
        let hashed = |number: u64| format!("{CALL}{number:016x}E");
        let sizes: BTreeMap<String, u64> = (0..90).map(|it| (hashed(it), 2_000)).collect();
        let script = script(&sizes, &BTreeMap::from([(hashed(3), 0)]));
        assert!(script.contains(&hashed(3)) && !script.contains(&format!("{CALL}*")));
    }
}
