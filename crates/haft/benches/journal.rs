//! Measures the cost of the journal: `edit` through the gate alternately with and without it, and
//! the time to undo a change of a thousand files. Goals: at most 1.3 times the edit without
//! journal; at most 2 s.
//!
//!     cargo bench -p haft --bench journal
//!
//! The folder is below `target`, on a disk. On a file system in memory an edit never waits, and the
//! ratio would differ.

use std::{
    fs,
    io::Write,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use haft::{
    CallRequest, Context, Gate, Journal, Mode, Outcome, Policy, Registry, Workspace, WorkspaceInfo,
    files::Disk,
    policy::{Layer, LayerKind},
    store::{
        JournalRetention, ReplyTiming, StoreAddress, StoreJournal, StoreLedger, StoreLocation,
    },
};
use serde_json::{Value, json};
use tokio::runtime::{Builder, Runtime};

const ROUNDS: usize = 400;
const FILES: usize = 1_000;

fn main() -> std::io::Result<()> {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR"))?;
    let mut out = std::io::stdout().lock();
    let (with, without) = (
        Setup::new(&folder.path().join("with"), true)?,
        Setup::new(&folder.path().join("without"), false)?,
    );
    for lines in [20, 500, 5_000, 20_000] {
        let rounds = if lines > 10_000 { ROUNDS / 10 } else { ROUNDS };
        let (mut kept, mut plain) = (Vec::new(), Vec::new());
        for setup in [&with, &without] {
            fs::write(setup.folder.join("a.rs"), source(lines))?;
        }
        for round in 0..rounds {
            // Alternate the order, because the speed of the disk varies.
            let order = if round % 2 == 0 { [true, false] } else { [false, true] };
            for is_with in order {
                let (setup, times) =
                    if is_with { (&with, &mut kept) } else { (&without, &mut plain) };
                // Edit lines all over the file. Editing line after line would be the journal's best
                // case.
                let line = (round * 7_919) % lines;
                let (old, new) = (format!("line {line}\n"), format!("{round} line {line}\n"));
                let input = json!({"path": "a.rs", "old_string": old, "new_string": new});
                times.push(setup.timed("edit", input));
            }
        }
        let (kept, plain) = (median(&mut kept), median(&mut plain));
        let ratio = kept.as_secs_f64() / plain.as_secs_f64();
        let name = format!("edit of {lines} lines");
        writeln!(out, "{name:<28} {kept:>10.1?} with, {plain:>10.1?} without: {ratio:.2}x")?;
    }
    let mut times: Vec<Duration> = (0..5).map(|round| undo_of_many(&with, round)).collect();
    let name = format!("undo of a patch of {FILES}");
    writeln!(out, "{name:<28} {:>10.1?}", median(&mut times))?;
    let mut times: Vec<Duration> = (0..3).map(|round| undo_of_session(&with, round)).collect();
    let name = format!("undo of {FILES} writes");
    writeln!(out, "{name:<28} {:>10.1?}", median(&mut times))
}

/// Text that looks like source code. Equal lines would compress to nothing.
fn source(lines: usize) -> String {
    const WORDS: [&str; 16] = [
        "reader", "path", "entry", "index", "value", "token", "buffer", "state", "parse", "offset",
        "queue", "handle", "limit", "result", "cursor", "shape",
    ];
    let mut random = 12_345_u64;
    let mut next = |most: usize| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (random >> 33) as usize % most
    };
    let line = |number: usize| {
        let [a, b, c, d] = [0; 4].map(|_| WORDS[next(WORDS.len())]);
        let (indent, constant) = (" ".repeat(4 * (1 + next(4))), next(100_000));
        format!("{indent}let {a}_{b} = {c}.{d}({constant})?; // line {number}\n")
    };
    (0..lines).map(line).collect()
}

fn median(times: &mut [Duration]) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

fn undo_of_many(setup: &Setup, round: usize) -> Duration {
    let name = |number: usize| format!("d{}/{number}.txt", number % 20);
    let mut patch = "*** Begin Patch\n".to_owned();
    for number in 0..FILES {
        let (path, old) = (setup.folder.join(name(number)), format!("old {number} {round}\n"));
        fs::create_dir_all(path.parent().expect("a folder")).expect("made");
        fs::write(&path, format!("{old}{}", "a line that stays\n".repeat(50))).expect("written");
        let path = name(number);
        patch.push_str(&format!("*** Update File: {path}\n@@\n-{old}+new\n"));
    }
    setup.timed("patch", json!({"patch": patch + "*** End Patch"}));
    setup.timed("undo", json!({}))
}

fn undo_of_session(setup: &Setup, round: usize) -> Duration {
    let session = format!("round {round}");
    for number in 0..FILES {
        let path = format!("s{}/{number}.txt", number % 20);
        let input = json!({"path": path, "content": format!("{round} {number}\n").repeat(50)});
        setup.call(&session, "write", input);
    }
    setup.timed("undo", json!({"session": session}))
}

struct Setup {
    folder: PathBuf,
    gate: Gate,
    runtime: Runtime,
}

impl Setup {
    fn new(folder: &Path, is_kept: bool) -> std::io::Result<Self> {
        fs::create_dir_all(folder)?;
        let folder = folder.canonicalize()?;
        let workspace = Arc::new(Workspace::open(&folder)?);
        let registry = Registry::default();
        registry.register_all(haft::catalogue::all()).expect("every name once");
        let mut layer = Layer::new(LayerKind::Session, "bench");
        layer.mode = Some(Mode::All);
        let place = StoreLocation::new(StoreAddress::Sqlite(folder.join(".haft/haft.db")));
        let ledger = StoreLedger::new(place.clone(), ReplyTiming::AfterCommit);
        let workspace_info = WorkspaceInfo {
            workspace: folder.clone(),
            directory: folder.clone(),
            ..WorkspaceInfo::default()
        };
        let mut gate = Gate::builder(registry)
            .policy(Policy::new([layer]))
            .workspace_info(workspace_info)
            .paths(workspace.clone())
            .ledger(Arc::new(ledger))
            .service::<dyn Disk>(workspace);
        if is_kept {
            gate = gate.service::<dyn Journal>(Arc::new(StoreJournal::new(
                place,
                JournalRetention::DEFAULT,
            )));
        }
        let runtime = Builder::new_current_thread().enable_all().build()?;
        Ok(Self { folder, gate: gate.build(), runtime })
    }

    fn call(&self, session: &str, tool: &str, input: Value) -> Outcome {
        let request = CallRequest::new(tool, input, Context::new(session));
        let outcome = self.runtime.block_on(self.gate.call(request));
        assert!(outcome.is_ok(), "{}", outcome.content);
        outcome
    }

    fn timed(&self, tool: &str, input: Value) -> Duration {
        let began = Instant::now();
        self.call("bench", tool, input);
        began.elapsed()
    }
}
