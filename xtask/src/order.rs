//! `cargo xtask order`: which functions a start and the usual calls need, told to the linker by `crates/haft/start.ld`. It lays them
//! side by side: scattered over the program those of a start cost a page fault each, which is a fifth of what a client waits for
//! its tools, those of a small call are looked for by the processor anew every time, and those of the others count as memory
//! together with all their neighbours.
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
const HEAD: &str = "/* What a call and a start run, side by side. Written by `cargo xtask order`; see there, and build.rs. */\n";
/// What the kernel maps around a page that is touched.
const WINDOW: u64 = 64 << 10;
/// So many bytes of others may come along with a name that is written without its hash.
const FEW: u64 = 1 << 10;

/// A session as the program sees it: its arguments, and what comes in.
struct Session {
    arguments: &'static [&'static str],
    input: String,
}

/// Where a function lies, first to last: what both run is between what only one of them does, so that either finds its own in
/// one piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Place {
    Call,
    CallAndStart,
    Start,
    /// Of a start that is no client's.
    Command,
    /// Of the other usual calls.
    Work,
    /// Others that share a name with one of these.
    Crowd,
}

/// A client that asks for the tools and then reads so often.
fn reader(calls: usize) -> Session {
    client(&[r#"{"name":"read","arguments":{"path":"input"}}"#].repeat(calls))
}

/// A client that does what most do with the files of a project.
fn worker() -> Session {
    client(&[
        r#"{"name":"write","arguments":{"path":"note.txt","content":"one\ntwo\nthree\n"}}"#,
        r#"{"name":"edit","arguments":{"path":"note.txt","old_string":"two","new_string":"2"}}"#,
        r#"{"name":"read","arguments":{"path":"note.txt","offset":2,"limit":1}}"#,
        r#"{"name":"list","arguments":{}}"#,
        r#"{"name":"glob","arguments":{"pattern":"**/*.txt"}}"#,
        r#"{"name":"grep","arguments":{"pattern":"thr.e"}}"#,
        r#"{"name":"grep","arguments":{"pattern":"three","literal":true,"context":1}}"#,
        r#"{"name":"bash","arguments":{"command":"true"}}"#,
        r#"{"name":"bash","arguments":{"command":"ls | head -n 3 && echo done"}}"#,
        r#"{"name":"read","arguments":{"path":"nowhere"}}"#,
        r#"{"name":"undo","arguments":{}}"#,
    ])
}

/// A client that asks for the tools and then makes these calls.
fn client(calls: &[&str]) -> Session {
    let mut input = concat!(
        r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","#,
        r#""capabilities":{},"clientInfo":{"name":"xtask","version":"1"}}}"#,
        "\n",
        r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#,
        "\n",
        r#"{"jsonrpc":"2.0","id":2,"method":"tools/list","params":{}}"#,
        "\n",
    )
    .to_owned();
    for (id, params) in (3..).zip(calls) {
        let _ = writeln!(
            input,
            r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{params}}}"#
        );
    }
    Session { arguments: &["mcp", "--root", ".", "--root", "further"], input }
}

fn command() -> Session {
    Session { arguments: &["read", "input"], input: "one\ntwo\n".to_owned() }
}

pub(crate) fn run() -> Result<()> {
    if !shell::works(&["valgrind", "--version"]) || !shell::works(&["nm", "--version"]) {
        bail!("valgrind and nm are needed to see which functions run");
    }
    let haft = programs::with_names("haft")?;
    let sizes = sizes(&shell::capture(&["nm", "--print-size", "--defined-only", text(&haft)?])?);
    let seen = |session: Session| Ok::<_, anyhow::Error>(costs(&watched(&haft, &session)?));
    let of_call = [&seen(reader(2))?, &seen(reader(40))?];
    let used = places(&seen(reader(0))?, of_call, &seen(command())?, &seen(worker())?);
    let used: BTreeMap<String, Place> =
        used.into_iter().filter(|(name, _)| sizes.contains_key(name)).collect();
    println!("{} of {} functions run in a start or a usual call", used.len(), sizes.len());
    fs::write(shell::root().join(SCRIPT), script(&sizes, &used))
        .with_context(|| format!("{SCRIPT} cannot be written"))
}

type Costs = BTreeMap<String, u64>;

/// A function is one of a call if more calls make more of it.
fn places(
    start: &Costs,
    [few, many]: [&Costs; 2],
    command: &Costs,
    work: &Costs,
) -> BTreeMap<String, Place> {
    let seen = [start, many, command, work];
    let all: BTreeSet<&String> = seen.iter().flat_map(|costs| costs.keys()).collect();
    let place = |name: &String| {
        let is_of_call = many.get(name) > few.get(name);
        match (is_of_call, start.contains_key(name)) {
            (true, false) => Some(Place::Call),
            (true, true) => Some(Place::CallAndStart),
            (false, true) => Some(Place::Start),
            (false, false) if command.contains_key(name) => Some(Place::Command),
            (false, false) => work.contains_key(name).then_some(Place::Work),
        }
    };
    all.into_iter().filter_map(|name| Some((name.clone(), place(name)?))).collect()
}

/// What valgrind writes down of a session, in a folder where haft finds no settings and may leave its records.
fn watched(haft: &Path, session: &Session) -> Result<String> {
    let home = haft.with_file_name("xtask-order-home");
    fs::create_dir_all(home.join("further"))
        .with_context(|| format!("{} cannot be made", home.display()))?;
    let (input, seen) = (home.join("input"), home.join("seen"));
    fs::write(&input, &session.input)?;
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

/// What each function took by itself. Callgrind introduces a name as `fn=(7) NAME`, with `'2` at the end for one that calls
/// itself, and then says `fn=(7)`; lines of numbers belong to the last one, but for the line behind `calls=`.
fn costs(seen: &str) -> Costs {
    let mut names: BTreeMap<&str, &str> = BTreeMap::new();
    let (mut costs, mut current, mut is_of_callee) = (Costs::new(), "", false);
    for line in seen.lines() {
        let callee = line.strip_prefix("cfn=(");
        if let Some(told) = callee.or_else(|| line.strip_prefix("fn=(")) {
            let (number, name) = told.split_once(')').unwrap_or((told, ""));
            if let Some(name) = name.strip_prefix(' ') {
                names.insert(number, name.split('\'').next().unwrap_or(name));
            }
            if callee.is_none() {
                current = names.get(number).copied().unwrap_or_default();
                costs.entry(current.to_owned()).or_default();
            }
        } else if line.starts_with("calls=") {
            is_of_callee = true;
        } else if line.starts_with(|letter: char| letter.is_ascii_digit() || "+-*".contains(letter))
        {
            let cost = line.split(' ').nth(1).and_then(|cost| cost.parse().ok()).unwrap_or(0);
            if !std::mem::take(&mut is_of_callee)
                && let Some(own) = costs.get_mut(current)
            {
                *own += cost;
            }
        }
    }
    costs
}

/// Which function lies where, for the linker.
fn script(sizes: &BTreeMap<String, u64>, used: &BTreeMap<String, Place>) -> String {
    let mut families: BTreeMap<String, Family<'_>> = BTreeMap::new();
    for (name, size) in sizes {
        let family = families.entry(without_hash(name)).or_default();
        match used.get(name) {
            Some(place) => family.used.push((*place, name)),
            None => family.strangers += size,
        }
    }
    let mut lines: Vec<(Place, &str)> = Vec::new();
    for (name, family) in &families {
        let Some((first, _)) = family.used.iter().min() else { continue };
        if family.strangers <= FEW {
            lines.push((*first, name));
        } else {
            lines.extend(&family.used);
            if family.is_worth_taking_whole() {
                lines.push((Place::Crowd, name));
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
    used: Vec<(Place, &'a str)>,
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
        let seen =
            "fn=(1) a\n12 13\ncfn=(2) b'2\ncalls=3 4\n12 500\n+1 7\n\nfn=(2)\nfl=(1) x.c\n* 5\n";
        assert_eq!(costs(seen), Costs::from([("a".to_owned(), 20), ("b".to_owned(), 5)]));
        let sizes = sizes("0010 0a t a\n0020 ff T b\n0030 08 d data\n0040 T without\n");
        assert_eq!(sizes, BTreeMap::from([("a".to_owned(), 10), ("b".to_owned(), 255)]));
    }

    #[test]
    fn what_more_calls_make_more_of_is_of_a_call() {
        let costs =
            |all: &[(&str, u64)]| all.iter().map(|(it, cost)| ((*it).to_owned(), *cost)).collect();
        let start: Costs = costs(&[("begin", 9), ("both", 1)]);
        let few = costs(&[("begin", 9), ("both", 3), ("first", 5)]);
        let many = costs(&[("begin", 9), ("both", 50), ("first", 5), ("call", 40)]);
        let command = costs(&[("begin", 2), ("print", 3)]);
        let work = costs(&[("begin", 2), ("call", 1), ("search", 3)]);
        let places = places(&start, [&few, &many], &command, &work);
        let place = |name: &str| places.get(name).copied();
        assert_eq!(place("call"), Some(Place::Call));
        assert_eq!(place("both"), Some(Place::CallAndStart));
        assert_eq!(place("begin"), Some(Place::Start));
        assert_eq!(place("print"), Some(Place::Command));
        assert_eq!(place("search"), Some(Place::Work));
        assert_eq!(place("first"), None);
    }

    #[test]
    fn who_runs_first_lies_first_and_a_shared_name_is_told_with_its_hash() {
        let hashed = |number: u64| format!("{CALL}{number:016x}E");
        let mut sizes: BTreeMap<String, u64> = (0..9).map(|it| (hashed(it), 2_000)).collect();
        sizes.insert(ONE.to_owned(), 70_000);
        let used =
            BTreeMap::from([(ONE.to_owned(), Place::Start), (hashed(3), Place::CallAndStart)]);
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
        let script = script(&sizes, &BTreeMap::from([(hashed(3), Place::Call)]));
        assert!(script.contains(&hashed(3)) && !script.contains(&format!("{CALL}*")));
    }
}
