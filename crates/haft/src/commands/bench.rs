//! `haft bench`: a quick benchmark on this machine. `cargo xtask bench` is the thorough one and
//! compares other programs.

use std::{
    fs, io,
    path::{Path, PathBuf},
    process::{Command as Program, ExitCode, Stdio},
    time::{Duration, Instant},
};

use clap::{Arg, ArgMatches, Command, value_parser};
use haft::host::config::Settings;
use haft_core::{CallRequest, Context, Gate, Mode, ToolError};
use serde::Serialize;
use serde_json::{Value, json};

use super::Cli;
use crate::{
    environment,
    globals::{Format, Globals},
    report,
    stop::Stop,
};

const ROUNDS: usize = 30;
const FILES: usize = 2_000;

/// One measurement.
#[derive(Serialize)]
struct Measurement {
    what: &'static str,
    /// The median.
    microseconds: f64,
}

pub(super) fn command() -> Command {
    Command::new("bench").about("Measure how long common calls take on this machine").arg(
        Arg::new("dir")
            .long("dir")
            .value_name("DIR")
            .value_parser(value_parser!(PathBuf))
            .help("Folder for the temporary workspace [default: .haft in the workspace]"),
    )
}

impl Cli<'_> {
    /// `haft bench`
    pub(super) fn bench(&self, matches: &ArgMatches) -> Result<ExitCode, Stop> {
        let mut globals = Globals::of(matches);
        let settings = Settings::load(&globals.choices, &self.environment.host)?;
        let folder = matches.get_one::<PathBuf>("dir").cloned();
        let folder = folder.unwrap_or_else(|| settings.workspace.join(".haft"));
        let workspace =
            TemporaryWorkspace::make(&folder).map_err(|error| unusable(&folder, &error))?;
        globals.choices.workspace = Some(workspace.0.clone());
        globals.choices.approve = Some(Mode::Contained);
        let mut settings = Settings::load(&globals.choices, &self.environment.host)?;
        settings.directory.clone_from(&settings.workspace);
        let gate = self.host(settings)?.gate().build();
        let mut rows = vec![self.measure_start()?];
        for (what, tool, input) in calls() {
            self.terminal.draw_status(what);
            rows.push(self.measure_call(&gate, what, tool, input)?);
        }
        self.terminal.end_status();
        match globals.format {
            Format::Json => report::json(self.terminal, &rows)?,
            Format::Text => {
                let line =
                    |row: &Measurement| format!("{:<44} {:>10}", row.what, time(row.microseconds));
                self.terminal.print(&rows.iter().map(line).collect::<Vec<_>>().join("\n"))?;
            }
        }
        Ok(ExitCode::SUCCESS)
    }

    fn measure_start(&self) -> Result<Measurement, ToolError> {
        let program = environment::program().unwrap_or_else(|| "haft".into());
        let times = (0..ROUNDS).map(|_| {
            let begin = Instant::now();
            let mut haft = Program::new(&program);
            haft.arg("--version").stdout(Stdio::null()).status()?;
            Ok(begin.elapsed())
        });
        let times: io::Result<Vec<Duration>> = times.collect();
        let times = times.map_err(|error| unusable(&program, &error))?;
        Ok(Measurement { what: "start: haft --version", microseconds: median(times) })
    }

    fn measure_call(
        &self,
        gate: &Gate,
        what: &'static str,
        tool: &str,
        input: fn(usize) -> Value,
    ) -> Result<Measurement, ToolError> {
        let mut times = Vec::with_capacity(ROUNDS);
        for round in 0..=ROUNDS {
            let request = CallRequest::new(tool, input(round), Context::new("bench"));
            let begin = Instant::now();
            let outcome = self.runtime.block_on(gate.call(request));
            let took = begin.elapsed();
            if let Some(error) = outcome.error {
                let message = format!("`{tool}` failed: {}", error.message);
                return Err(ToolError::new(error.kind, message).hint(error.hint));
            }
            // The first round warms up caches.
            if round > 0 {
                times.push(took);
            }
        }
        Ok(Measurement { what, microseconds: median(times) })
    }
}

type MeasuredCall = (&'static str, &'static str, fn(usize) -> Value);

fn calls() -> [MeasuredCall; 5] {
    [
        ("read: 2 KB", "read", |_| json!({"path": "0/0.txt"})),
        (
            "write: 4 KB over a file, with its journal",
            "write",
            |round| json!({"path": "written.txt", "content": format!("{round} four kilobytes\n").repeat(200)}),
        ),
        ("glob: 2,000 files", "glob", |_| json!({"pattern": "*7.txt"})),
        ("grep: 2,000 files, 4 MB", "grep", |_| json!({"pattern": "needle"})),
        ("bash: true, in the sandbox", "bash", |_| json!({"command": "true"})),
    ]
}

/// A small workspace that is deleted on drop.
struct TemporaryWorkspace(PathBuf);

impl TemporaryWorkspace {
    fn make(parent: &Path) -> io::Result<Self> {
        let workspace = Self(parent.join(format!("bench-{}", std::process::id())));
        // A `.haft` folder makes it a workspace, so that config files of parent folders do not
        // apply.
        fs::create_dir_all(workspace.0.join(".haft"))?;
        let text = "a line of text in a file of two kilobytes\n".repeat(50);
        for number in 0..FILES {
            let folder = workspace.0.join((number / 100).to_string());
            fs::create_dir_all(&folder)?;
            let needle = if number % 500 == 0 { "needle\n" } else { "" };
            fs::write(folder.join(format!("{}.txt", number % 100)), format!("{text}{needle}"))?;
        }
        Ok(workspace)
    }
}

impl Drop for TemporaryWorkspace {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn unusable(path: &Path, error: &io::Error) -> ToolError {
    ToolError::unavailable(format!("`{}`: {error}", path.display()))
        .hint("choose a writable folder with --dir")
}

fn median(mut times: Vec<Duration>) -> f64 {
    times.sort_unstable();
    times.get(times.len() / 2).map_or(0.0, Duration::as_secs_f64) * 1e6
}

fn time(us: f64) -> String {
    if us < 1_000.0 { format!("{us:.0} us") } else { format!("{:.2} ms", us / 1e3) }
}
