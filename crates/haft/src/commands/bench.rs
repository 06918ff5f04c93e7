//! `haft bench`: a short look at how fast haft is on this machine. The long one, beside other programs, is `cargo xtask bench`.

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

/// One figure.
#[derive(Serialize)]
struct Row {
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
            .help("Where to make the files to work on [default: .haft of the workspace]"),
    )
}

impl Cli<'_> {
    /// `haft bench`
    pub(super) fn bench(&self, matches: &ArgMatches) -> Result<ExitCode, Stop> {
        let mut globals = Globals::of(matches);
        let settings = Settings::load(&globals.choices, &self.environment.host)?;
        let folder = matches.get_one::<PathBuf>("dir").cloned();
        let folder = folder.unwrap_or_else(|| settings.workspace.join(".haft"));
        let place = Place::make(&folder).map_err(|error| unusable(&folder, &error))?;
        globals.choices.workspace = Some(place.0.clone());
        globals.choices.approve = Some(Mode::Contained);
        let mut settings = Settings::load(&globals.choices, &self.environment.host)?;
        settings.directory.clone_from(&settings.workspace);
        let gate = self.host(settings)?.gate().build();
        let mut rows = vec![self.start()?];
        for (what, tool, input) in calls() {
            self.terminal.draw_status(what);
            rows.push(self.row(&gate, what, tool, input)?);
        }
        self.terminal.end_status();
        match globals.format {
            Format::Json => report::json(self.terminal, &rows)?,
            Format::Text => {
                let line = |row: &Row| format!("{:<44} {:>10}", row.what, time(row.microseconds));
                self.terminal.print(&rows.iter().map(line).collect::<Vec<_>>().join("\n"))?;
            }
        }
        Ok(ExitCode::SUCCESS)
    }

    fn start(&self) -> Result<Row, ToolError> {
        let program = environment::program().unwrap_or_else(|| "haft".into());
        let times = (0..ROUNDS).map(|_| {
            let begin = Instant::now();
            let mut haft = Program::new(&program);
            haft.arg("--version").stdout(Stdio::null()).status()?;
            Ok(begin.elapsed())
        });
        let times: io::Result<Vec<Duration>> = times.collect();
        let times = times.map_err(|error| unusable(&program, &error))?;
        Ok(Row { what: "start: haft --version", microseconds: median(times) })
    }

    fn row(
        &self,
        gate: &Gate,
        what: &'static str,
        tool: &str,
        input: fn(usize) -> Value,
    ) -> Result<Row, ToolError> {
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
            // The first round warms caches.
            if round > 0 {
                times.push(took);
            }
        }
        Ok(Row { what, microseconds: median(times) })
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

/// A small workspace that goes when it is no longer needed.
struct Place(PathBuf);

impl Place {
    fn make(parent: &Path) -> io::Result<Self> {
        let place = Self(parent.join(format!("bench-{}", std::process::id())));
        // Its own: rules of folders above have no say in it.
        fs::create_dir_all(place.0.join(".haft"))?;
        let text = "a line of text in a file of two kilobytes\n".repeat(50);
        for number in 0..FILES {
            let folder = place.0.join((number / 100).to_string());
            fs::create_dir_all(&folder)?;
            let needle = if number % 500 == 0 { "needle\n" } else { "" };
            fs::write(folder.join(format!("{}.txt", number % 100)), format!("{text}{needle}"))?;
        }
        Ok(place)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn unusable(path: &Path, error: &io::Error) -> ToolError {
    ToolError::unavailable(format!("`{}`: {error}", path.display()))
        .hint("choose a folder that can be written with --dir")
}

fn median(mut times: Vec<Duration>) -> f64 {
    times.sort_unstable();
    times.get(times.len() / 2).map_or(0.0, Duration::as_secs_f64) * 1e6
}

fn time(us: f64) -> String {
    if us < 1_000.0 { format!("{us:.0} us") } else { format!("{:.2} ms", us / 1e3) }
}
