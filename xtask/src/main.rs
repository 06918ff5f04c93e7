//! `cargo xtask`: what this repository does to itself. Only the arguments are read here; each task
//! is a file beside it.
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a terminal program whose whole output is its report"
)]

mod check;
mod deny;
mod docs;
mod edges;
#[cfg(test)]
mod fence;
mod licence;
mod metadata;
mod msrv;
mod order;
mod postgres;
mod programs;
mod setup;
mod shell;
mod step;
mod test;

use std::process::ExitCode;

use anyhow::{Result, bail};

const SUBCOMMANDS: &str = "check, test, docs, order, setup, bench";

const HELP: &str = "\
what this repository does to itself

usage: cargo xtask <subcommand>

  check           format, clippy, dependency rules, crate edges, rust version, generated pages
  test            setup, check, then every test
  docs            write the generated pages under docs/
  docs --check    fail if a generated page is stale
  order           write down for the linker which functions a start runs
  setup           install what the tests need, where that is possible
  bench           install rg and fd to compare with, then run `haft bench` in release mode
";

#[derive(Debug, PartialEq)]
enum Task {
    Help,
    Check,
    Test,
    Setup,
    Bench,
    Order,
    Docs(docs::Mode),
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match parse(&arguments).and_then(run) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn parse(arguments: &[String]) -> Result<Task> {
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    Ok(match words.as_slice() {
        ["help" | "-h" | "--help"] | [_, "-h" | "--help"] => Task::Help,
        ["check"] => Task::Check,
        ["test"] => Task::Test,
        ["setup"] => Task::Setup,
        ["bench"] => Task::Bench,
        ["order"] => Task::Order,
        ["docs"] => Task::Docs(docs::Mode::Write),
        ["docs", "--check"] => Task::Docs(docs::Mode::Compare),
        [] => bail!("no subcommand: expected one of {SUBCOMMANDS}"),
        [task @ ("check" | "test" | "setup" | "bench" | "order" | "docs"), rest @ ..] => {
            bail!("unexpected argument for `{task}`: `{}`", rest.join(" "))
        }
        [other, ..] => bail!("unknown subcommand `{other}`: expected one of {SUBCOMMANDS}"),
    })
}

const CONTAINERS: &str = "target/tools/containers/config.toml";

fn run(task: Task) -> Result<()> {
    match task {
        Task::Help => print!("{HELP}"),
        Task::Check => check::run()?,
        Task::Test => test::run()?,
        Task::Setup => setup::run()?,
        Task::Bench => {
            setup::for_bench();
            let mut words = vec!["cargo", "run", "--release", "-p", "haft", "--", "bench"];
            // What setup has made for the tests serves the row of containers too.
            if shell::root().join(CONTAINERS).exists() {
                words.extend(["--config", CONTAINERS]);
            }
            shell::run(&words)?;
        }
        Task::Order => order::run()?,
        Task::Docs(mode) => docs::run(mode)?,
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Task> {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        parse(&words)
    }

    #[test]
    fn every_subcommand_is_understood() {
        assert_eq!(parsed("check").unwrap(), Task::Check);
        assert_eq!(parsed("test").unwrap(), Task::Test);
        assert_eq!(parsed("setup").unwrap(), Task::Setup);
        assert_eq!(parsed("bench").unwrap(), Task::Bench);
        assert_eq!(parsed("order").unwrap(), Task::Order);
        assert_eq!(parsed("docs").unwrap(), Task::Docs(docs::Mode::Write));
        assert_eq!(parsed("docs --check").unwrap(), Task::Docs(docs::Mode::Compare));
        assert_eq!(parsed("--help").unwrap(), Task::Help);
        assert_eq!(parsed("docs --help").unwrap(), Task::Help);
    }

    #[test]
    fn an_unknown_or_missing_subcommand_lists_the_known_ones() {
        for line in ["", "tset", "frobnicate now"] {
            let message = parsed(line).unwrap_err().to_string();
            assert!(message.contains("check, test, docs, order, setup, bench"), "{message}");
        }
        assert!(parsed("tset").unwrap_err().to_string().contains("`tset`"));
    }

    #[test]
    fn a_stray_argument_is_named() {
        let message = parsed("check --fast").unwrap_err().to_string();
        assert_eq!(message, "unexpected argument for `check`: `--fast`");
    }
}
