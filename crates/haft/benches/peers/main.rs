//! Compares the tools with their alternatives: each row runs a tool through the gate and alternates
//! it with the minimum that the same work needs, an echo, rg or fd. Only the ratio counts, because
//! the machine may be busy.
//!
//!     cargo xtask bench [--only TEXT] [--files N] [--rounds N] [--container ENGINE,IMAGE]

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a program whose whole output is its report"
)]

mod commands;
mod corpus;
mod floors;
mod pipe;
mod web;

use std::{
    cell::RefCell,
    fs, io,
    path::Path,
    process::ExitCode,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use haft::host::{catalogue, environment};
use haft_core::{
    CallRequest, Context, Gate, Mode, Outcome, Policy, Registry, ToolError, WorkspaceInfo,
    commands::Executor,
    files::Disk,
    policy::{Layer, LayerKind},
};
use haft_exec::{ContainerSettings, ProcessSettings, Programs, Workspace};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use self::{
    corpus::{COMMON, Corpus, FEW, MARKER, RARE, REGEX},
    pipe::Pipe,
};

/// The amount of data and the number of rounds.
struct BenchOptions {
    /// Run only rows whose name contains this text.
    only: String,
    /// Number of files in the searched tree.
    files: usize,
    /// Rounds of slow work. Quick work has twenty times as many.
    rounds: usize,
    /// Engine and image for the container row.
    container: Option<Arc<ContainerSettings>>,
}

/// One measurement.
struct Row {
    /// Name of the measured work.
    what: &'static str,
    /// Median of haft, in microseconds.
    haft_us: f64,
    /// Name of the alternative.
    against: &'static str,
    /// Median of the alternative, in microseconds. Absent when it could not run.
    against_us: Option<f64>,
    /// haft's median divided by the alternative's.
    ratio: Option<f64>,
    /// The limit.
    goal: Goal,
    /// Whether it does not; absent when it could not be compared.
    is_reached: Option<bool>,
}

/// All measurements.
struct BenchResults {
    rows: Vec<Row>,
    /// Memory measurements.
    memory: Vec<MemoryRow>,
}

/// The memory that something used.
struct MemoryRow {
    what: &'static str,
    bytes: u64,
    /// The limit.
    goal_bytes: u64,
    is_reached: bool,
}

const fn megabytes(count: u64) -> u64 {
    count * 1_000_000
}

fn main() -> ExitCode {
    let options: Vec<String> = std::env::args().skip(1).collect();
    match options_of(&options).and_then(measured) {
        Ok(table) => {
            println!("{}", table.text());
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{error}; {}", error.next_step());
            ExitCode::FAILURE
        }
    }
}

fn options_of(words: &[String]) -> Result<BenchOptions, ToolError> {
    let mut extent =
        BenchOptions { only: String::new(), files: 40_000, rounds: 9, container: None };
    let mut words = words.iter().filter(|word| *word != "--bench");
    while let Some(name) = words.next() {
        let value = words.next().cloned().unwrap_or_default();
        let number = || {
            let problem = |_| ToolError::input(format!("`{name}` wants a number, not `{value}`"));
            value.parse::<usize>().map_err(problem)
        };
        match name.as_str() {
            "--only" => extent.only = value,
            "--files" => extent.files = number()?.max(1_000),
            "--rounds" => extent.rounds = number()?.max(1),
            "--container" => {
                let (engine, image) = value.split_once(',').unwrap_or(("podman", &value));
                let engine = Some(engine.to_owned());
                let image = image.to_owned();
                let settings = ContainerSettings { engine, image, ..ContainerSettings::default() };
                extent.container = Some(Arc::new(settings));
            }
            _ => {
                let message = format!("there is no option `{name}`");
                return Err(ToolError::input(message)
                    .hint("--only, --files, --rounds or --container ENGINE,IMAGE"));
            }
        }
    }
    Ok(extent)
}

/// Measures everything in a temporary folder.
fn measured(extent: BenchOptions) -> Result<BenchResults, ToolError> {
    // Configures the process like the server does. No process may then be spawned by this thread,
    // so another one measures.
    Programs::adopt_orphans();
    let work = thread::spawn(move || {
        let parent = Path::new(env!("CARGO_TARGET_TMPDIR"));
        let folder = TemporaryFolder::make(parent).map_err(|error| unusable(parent, &error))?;
        eprintln!("making files to work on");
        let corpus = Corpus::make(&folder.0, extent.files).map_err(|e| unusable(&folder.0, &e))?;
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
        let runtime = Box::leak(Box::new(runtime.map_err(|e| unusable(&folder.0, &e))?));
        let registry = catalogue()?;
        let (rows, memory) = (Vec::new(), Vec::new());
        let mut bench = Bench { corpus, extent, registry, runtime, rows, memory };
        bench.measure_all().map_err(|error| match error {
            BenchError::Tool(error) => *error,
            BenchError::Io(error) => unusable(&folder.0, &error),
        })?;
        Ok(BenchResults { rows: bench.rows, memory: bench.memory })
    });
    work.join().expect("a bench that panics has said why")
}

fn unusable(folder: &Path, error: &io::Error) -> ToolError {
    ToolError::unavailable(format!("{} cannot be worked in: {error}", folder.display()))
        .hint("about 600 MB and 45,000 files are needed there")
}

/// A folder that is removed on drop.
struct TemporaryFolder(std::path::PathBuf);

impl TemporaryFolder {
    fn make(path: &Path) -> io::Result<Self> {
        fs::create_dir_all(path)?;
        let own = path.join(format!("bench-{}", std::process::id()));
        fs::create_dir(&own)?;
        // A `.haft` folder makes it a workspace, so that rules of parent folders do not apply.
        fs::create_dir(own.join(".haft"))?;
        Ok(Self(own.canonicalize()?))
    }
}

impl Drop for TemporaryFolder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

enum BenchError {
    Tool(Box<ToolError>),
    Io(io::Error),
}

impl From<io::Error> for BenchError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

struct Bench {
    corpus: Corpus,
    extent: BenchOptions,
    registry: Registry,
    runtime: &'static Runtime,
    rows: Vec<Row>,
    memory: Vec<MemoryRow>,
}

/// The name and the goal of a row.
#[derive(Clone, Copy)]
struct RowGoal {
    what: &'static str,
    against: &'static str,
    goal: Goal,
}

#[derive(Clone, Copy)]
enum Goal {
    /// Maximum ratio to the alternative.
    Ratio(f64),
    /// Maximum in microseconds.
    Microseconds(f64),
}

const fn ratio(what: &'static str, against: &'static str, goal: f64) -> RowGoal {
    RowGoal { what, against, goal: Goal::Ratio(goal) }
}

type Work<'a> = &'a mut dyn FnMut() -> Result<(), BenchError>;

/// A tool and the program to compare it with.
struct Rival {
    aim: RowGoal,
    tool: &'static str,
    input: Value,
    /// Expected number of hits.
    hits: usize,
    program: &'static str,
    arguments: &'static [&'static str],
}

impl Bench {
    fn measure_all(&mut self) -> Result<(), BenchError> {
        let program = Path::new(env!("CARGO_BIN_EXE_haft"));
        self.starting(program)?;
        self.serving(program)?;
        self.passing()?;
        self.reading()?;
        self.writing()?;
        self.editing()?;
        self.listing()?;
        self.running()?;
        self.fetching()?;
        for rival in rivals() {
            self.beside(&rival)?;
        }
        Ok(())
    }

    fn starting(&mut self, program: &Path) -> Result<(), BenchError> {
        let name = program.to_string_lossy().into_owned();
        let folder = self.corpus.folder.clone();
        for (what, arguments, goal) in [
            ("start, haft --version", &["--version"][..], 2.0),
            ("start, haft hello Ada", &["hello", "Ada"], 3.0),
        ] {
            self.quick(
                ratio(what, "starting `true`", goal),
                &mut || Ok(floors::program(&name, arguments, &folder)?),
                Some(&mut || Ok(floors::program("true", &[], &folder)?)),
            )?;
        }
        Ok(())
    }

    /// Over MCP, against a program that only echoes.
    fn serving(&mut self, program: &Path) -> Result<(), BenchError> {
        let folder = self.corpus.folder.clone();
        // The time to exit is not measured.
        let latest = RefCell::new(None);
        let introduced = |pipe: io::Result<Pipe>| {
            let mut pipe = pipe?;
            pipe.introduce()?;
            latest.replace(Some(pipe));
            Ok::<(), BenchError>(())
        };
        self.measure(
            ratio("mcp, from start to the list of tools", "a program that echoes (cat)", 2.0),
            self.extent.rounds * 20,
            &mut || introduced(Pipe::haft(program, &folder)),
            Some(&mut || introduced(Pipe::echo())),
            &mut || drop(latest.take()),
        )?;
        let (mut server, mut echo) = (Pipe::haft(program, &folder)?, Pipe::echo()?);
        server.introduce()?;
        // Measure idle memory some time after the last answer.
        thread::sleep(Duration::from_millis(100));
        self.hold("haft mcp, when it has told its tools", server.memory(), megabytes(8));
        let read = json!({"name": "read", "arguments": {"path": "small.txt"}});
        self.quick(
            ratio("mcp, read 2 KB", "the same message echoed (cat)", 3.0),
            &mut || Ok(server.ask("tools/call", &read)?),
            Some(&mut || Ok(echo.ask("tools/call", &read)?)),
        )?;
        let many = 50 * pipe::IN_FLIGHT;
        self.slow(
            ratio("mcp, read 2 KB, 64 at once (3,200)", "the same messages echoed (cat)", 6.0),
            &mut || Ok(server.ask_many(many, "tools/call", &read)?),
            Some(&mut || Ok(echo.ask_many(many, "tools/call", &read)?)),
        )?;
        for (tool, arguments) in heavy() {
            server.ask("tools/call", &json!({"name": tool, "arguments": arguments}))?;
        }
        self.hold("haft mcp, after all of this and a search", server.memory(), megabytes(26));
        Ok(())
    }

    /// Through the gate only.
    fn passing(&mut self) -> Result<(), BenchError> {
        let gate = self.setup().open()?;
        let goal = Goal::Microseconds(20.0);
        let aim =
            RowGoal { what: "gate, a call that does nothing", against: "20 microseconds", goal };
        self.quick(aim, &mut || gate.call("hello", &json!({"name": "Ada"})), None)
    }

    fn hold(&mut self, what: &'static str, bytes: u64, goal_bytes: u64) {
        if what.contains(&self.extent.only) {
            let is_reached = bytes <= goal_bytes;
            self.memory.push(MemoryRow { what, bytes, goal_bytes, is_reached });
        }
    }

    fn reading(&mut self) -> Result<(), BenchError> {
        let middle = self.corpus.log_lines / 2;
        let input = json!({"path": "big.log", "offset": middle, "limit": 200});
        let setup = self.setup();
        let log = self.corpus.folder.join("big.log");
        let before = memory();
        self.slow(
            ratio("read, 200 lines amid 200 MB", "counting its lines up to there", 1.4),
            // Each round without the caches of earlier calls.
            &mut || setup.open()?.call("read", &input),
            Some(&mut || Ok(floors::count_lines(&log, middle)?)),
        )?;
        self.hold("reading amid 200 MB", memory().saturating_sub(before), megabytes(8));
        let gate = setup.open()?;
        gate.call("read", &input)?;
        let goal = Goal::Microseconds(1_000.0);
        let again = RowGoal { what: "read, the same lines again", against: "a millisecond", goal };
        self.quick(again, &mut || gate.call("read", &input), None)
    }

    fn writing(&mut self) -> Result<(), BenchError> {
        let gate = self.setup().open()?;
        let folder = self.corpus.folder.join("writing");
        fs::create_dir_all(&folder)?;
        // Alternate two contents, because writing the same content writes nothing.
        let contents = ["four kilobyte a\n", "four kilobyte b\n"].map(|line| line.repeat(256));
        let (mut ours, mut theirs) = (contents.iter().cycle(), contents.iter().cycle());
        let mut next = || ours.next().map_or("", String::as_str);
        self.quick(
            ratio("write, 4 KB over a file", "temp file, fsync, rename, fsync by hand", 1.3),
            &mut || {
                let input = json!({"path": "writing/ours.txt", "content": next()});
                gate.call("write", &input)
            },
            Some(&mut || {
                let content = theirs.next().map_or("", String::as_str);
                Ok(floors::replace(&folder.join("theirs.txt"), content.as_bytes())?)
            }),
        )
    }

    fn editing(&mut self) -> Result<(), BenchError> {
        let gate = self.setup().open()?;
        let by_hand = self.corpus.folder.join("by-hand.rs");
        fs::copy(self.corpus.folder.join("long.rs"), &by_hand)?;
        let mut ours = [MARKER.to_owned(), MARKER.replace("AAAA", "BBBB")];
        let mut theirs = ours.clone();
        self.quick(
            ratio("edit, one line of 5,000", "read, find, replace and write it by hand", 1.8),
            &mut || {
                let [old, new] = &ours;
                let input = json!({"path": "long.rs", "old_string": old, "new_string": new});
                gate.call("edit", &input)?;
                ours.reverse();
                Ok(())
            },
            Some(&mut || {
                let [old, new] = &theirs;
                floors::edit(&by_hand, old, new)?;
                theirs.reverse();
                Ok(())
            }),
        )
    }

    fn listing(&mut self) -> Result<(), BenchError> {
        let gate = self.setup().open()?;
        let folder = self.corpus.folder.join("dir1000");
        let input = json!({"path": "dir1000", "limit": 2000, "depth": 1});
        gate.check_hits("list", &input, 1_000)?;
        self.quick(
            ratio("list, 1,000 entries", "readdir and sort", 1.7),
            &mut || gate.call("list", &input),
            Some(&mut || Ok(floors::entries(&folder)?)),
        )
    }

    fn beside(&mut self, rival: &Rival) -> Result<(), BenchError> {
        let gate = self.setup().open()?;
        let tree = self.corpus.folder.join("tree");
        let mut program = || Ok(floors::program(rival.program, rival.arguments, &tree)?);
        let is_there = floors::has(rival.program);
        gate.check_hits(rival.tool, &rival.input, rival.hits)?;
        self.slow(
            rival.aim,
            &mut || gate.call(rival.tool, &rival.input),
            is_there.then_some(&mut program),
        )
    }

    fn setup(&self) -> GateSetup {
        GateSetup {
            folder: self.corpus.folder.clone(),
            registry: self.registry.clone(),
            runtime: self.runtime,
            sandbox: ProcessSettings::Nothing,
        }
    }

    fn slow(
        &mut self,
        aim: RowGoal,
        ours: Work<'_>,
        theirs: Option<Work<'_>>,
    ) -> Result<(), BenchError> {
        self.measure(aim, self.extent.rounds, ours, theirs, &mut || ())
    }

    fn quick(
        &mut self,
        aim: RowGoal,
        ours: Work<'_>,
        theirs: Option<Work<'_>>,
    ) -> Result<(), BenchError> {
        self.measure(aim, self.extent.rounds * 20, ours, theirs, &mut || ())
    }

    /// Alternates both, so that a busy machine affects both. `tidy_up` runs after each, unmeasured.
    fn measure(
        &mut self,
        RowGoal { what, against, goal }: RowGoal,
        rounds: usize,
        ours: Work<'_>,
        mut theirs: Option<Work<'_>>,
        tidy_up: &mut dyn FnMut(),
    ) -> Result<(), BenchError> {
        if !what.contains(&self.extent.only) {
            return Ok(());
        }
        eprintln!("{what}");
        let (mut own, mut other) = (Vec::new(), Vec::new());
        for round in 0..=rounds {
            let mut time = |work: Work<'_>, times: &mut Vec<Duration>| {
                let begin = Instant::now();
                work()?;
                // The first round warms up caches.
                if round > 0 {
                    times.push(begin.elapsed());
                }
                tidy_up();
                Ok::<(), BenchError>(())
            };
            time(ours, &mut own)?;
            if let Some(theirs) = &mut theirs {
                time(*theirs, &mut other)?;
            }
        }
        let haft_us = median(own);
        let against_us = (!other.is_empty()).then(|| median(other));
        let ratio = against_us.map(|other| haft_us / other);
        let is_reached = match goal {
            Goal::Ratio(goal) => ratio.map(|ratio| ratio <= goal),
            Goal::Microseconds(goal) => Some(haft_us <= goal),
        };
        self.rows.push(Row { what, haft_us, against, against_us, ratio, goal, is_reached });
        Ok(())
    }
}

fn rivals() -> [Rival; 6] {
    let glob = |pattern: &str| json!({"path": "tree", "pattern": pattern, "limit": 100});
    let grep = |pattern: &str| json!({"path": "tree", "pattern": pattern, "max_results": 1000});
    let rg = |aim, tool, input, hits, arguments| Rival {
        aim,
        tool,
        input,
        hits,
        program: "rg",
        arguments,
    };
    let few = ratio("glob, 3 hits", "rg --files -g", 1.0);
    let fd = RowGoal { against: "fd -g", ..few };
    let all = ratio("glob, a third of all files", "rg --files -g", 1.0);
    let rare = ratio("grep, a text, 1 hit", "rg -F", 0.95);
    let regex = ratio("grep, a regex, 200 hits", "rg", 0.95);
    let limited = ratio("grep, a common word, 100 lines", "rg for all of them", 0.1);
    let first_hundred = json!({"path": "tree", "pattern": COMMON});
    [
        rg(all, "glob", glob("*.rs"), 100, &["--files", "-g", "*.rs"]),
        rg(few, "glob", glob(FEW), 3, &["--files", "-g", FEW]),
        Rival { program: "fd", ..rg(fd, "glob", glob(FEW), 3, &["-g", FEW]) },
        rg(
            rare,
            "grep",
            json!({"path": "tree", "pattern": RARE, "literal": true}),
            1,
            &["-nF", RARE],
        ),
        rg(regex, "grep", grep(REGEX), 200, &["-n", REGEX]),
        rg(limited, "grep", first_hundred, 100, &["-n", COMMON]),
    ]
}

/// A workspace and a gate that allows everything.
struct GateSetup {
    folder: std::path::PathBuf,
    registry: Registry,
    runtime: &'static Runtime,
    /// Sandbox for commands.
    sandbox: ProcessSettings,
}

impl GateSetup {
    /// With a workspace without caches.
    fn open(&self) -> Result<GateCalls, BenchError> {
        let workspace = Arc::new(Workspace::open(&self.folder)?);
        let sandbox = self.sandbox.clone();
        let programs = Programs::new(sandbox, workspace.clone(), environment::all, &self.folder);
        let mut layer = Layer::new(LayerKind::Session, "haft bench");
        layer.mode = Some(Mode::All);
        let workspace_info = WorkspaceInfo {
            workspace: self.folder.clone(),
            directory: self.folder.clone(),
            ..WorkspaceInfo::default()
        };
        let gate = Gate::builder(self.registry.clone())
            .workspace_info(workspace_info)
            .paths(workspace.clone())
            .command_reader(Arc::new(|text| haft_shell::accesses(text, None)))
            .service::<dyn Disk>(workspace.clone())
            .service::<dyn Executor>(Arc::new(programs))
            .service(web::client())
            .policy(Policy::new([layer]))
            .build();
        Ok(GateCalls { gate, runtime: self.runtime })
    }
}

struct GateCalls {
    gate: Gate,
    runtime: &'static Runtime,
}

impl GateCalls {
    fn call(&self, tool: &str, input: &Value) -> Result<(), BenchError> {
        self.answer(tool, input).map(drop)
    }

    fn answer(&self, tool: &str, input: &Value) -> Result<Outcome, BenchError> {
        let request = CallRequest::new(tool, input.clone(), Context::new("bench"));
        let mut outcome: Outcome = self.runtime.block_on(self.gate.call(request));
        match outcome.error.take() {
            None => Ok(outcome),
            Some(error) => {
                let message = format!("`{tool}` failed: {}", error.message);
                Err(BenchError::Tool(Box::new(
                    ToolError::new(error.kind, message).hint(error.hint),
                )))
            }
        }
    }

    /// Check the result, because a measurement of a wrong result is worthless.
    fn check_hits(&self, tool: &str, input: &Value, expected: usize) -> Result<(), BenchError> {
        let outcome = self.answer(tool, input)?;
        let data = outcome.data.unwrap_or_default();
        let lists = ["files", "entries", "paths"].iter().find_map(|name| data[*name].as_array());
        let lines = |file: &Value| file["lines"].as_array().map_or(1, Vec::len);
        let found: usize = lists.map_or(0, |list| list.iter().map(lines).sum());
        if found == expected {
            return Ok(());
        }
        let message = format!("`{tool}` found {found} of {expected} for {input}");
        Err(BenchError::Tool(Box::new(ToolError::internal(message))))
    }
}

fn median(mut times: Vec<Duration>) -> f64 {
    times.sort_unstable();
    times.get(times.len() / 2).map_or(0.0, Duration::as_secs_f64) * 1e6
}

/// Other calls of a session.
fn heavy() -> [(&'static str, Value); 4] {
    [
        ("read", json!({"path": "big.log", "offset": 1_000_000, "limit": 200})),
        ("list", json!({"path": "dir1000", "limit": 2000, "depth": 1})),
        ("glob", json!({"path": "tree", "pattern": "*.rs", "limit": 1000})),
        ("grep", json!({"path": "tree", "pattern": RARE, "literal": true})),
    ]
}

/// Returns the current memory of this process, in bytes.
fn memory() -> u64 {
    memory_of("self")
}

fn memory_of(process: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kilobytes = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kilobytes.unwrap_or(0) * 1024
}

impl BenchResults {
    /// Formats the table for people.
    fn text(&self) -> String {
        let mut lines = vec![format!(
            "{:<38} {:>10}  {:<42} {:>10} {:>7} {:>6}",
            "", "haft", "against", "", "ratio", "goal"
        )];
        for row in &self.rows {
            let against = row.against_us.map_or("-".to_owned(), time);
            let ratio = row.ratio.map_or("-".to_owned(), |ratio| format!("{ratio:.2}"));
            let goal = match row.goal {
                Goal::Ratio(goal) => format!("{goal:.2}"),
                Goal::Microseconds(goal) => time(goal),
            };
            let verdict = match row.is_reached {
                Some(true) => "",
                Some(false) => "  above",
                None => "  not installed",
            };
            lines.push(format!(
                "{:<38} {:>10}  {:<42} {against:>10} {ratio:>7} {goal:>6}{verdict}",
                row.what,
                time(row.haft_us),
                row.against
            ));
        }
        lines.push(String::new());
        for MemoryRow { what, bytes, goal_bytes, is_reached } in &self.memory {
            let verdict = if *is_reached { "" } else { "  above" };
            let (held, goal) = (*bytes as f64 / 1e6, *goal_bytes as f64 / 1e6);
            lines.push(format!("memory, {what:<42} {held:>6.1} MB {goal:>6.1} MB{verdict}"));
        }
        lines.join("\n")
    }
}

fn time(us: f64) -> String {
    if us < 1_000.0 { format!("{us:.0} us") } else { format!("{:.2} ms", us / 1e3) }
}
