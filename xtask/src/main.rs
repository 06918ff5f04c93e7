//! `cargo xtask`: the tasks of this repository. This file only parses the arguments; each task has its
//! own file.
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a terminal program whose whole output is its report"
)]

#[cfg(test)]
mod banned_modules;
mod check;
mod docs;
mod edges;
mod metadata;
mod msrv;
mod names;
mod picture;
mod postgres;
mod programs;
mod setup;
mod shell;
mod step;
mod test;

use std::process::ExitCode;

use anyhow::{Result, bail};

const SUBCOMMANDS: &str = "check, test, docs, setup, bench, fuzz";

const HELP: &str = "\
tasks of this repository

usage: cargo xtask <subcommand>

  check           format, clippy, dependency rules, crate edges, rust version, generated pages
  test            setup, check, then all tests
  docs            write the generated pages under docs/
  docs --check    fail if a generated page is stale
  setup           install the programs that the tests need, where possible
  bench           compare the tools with rg, fd, an echo and hand-written code (--only TEXT, --files N, --rounds N)
  fuzz shell      compare the reader of shell texts with bash (--minutes N, default 60; --seed S)
";

#[derive(Debug, PartialEq)]
enum Task {
    Help,
    Check,
    Test,
    Setup,
    Bench(Vec<String>),
    Docs(docs::PageMode),
    Fuzz(Vec<String>),
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
        ["bench", rest @ ..] => Task::Bench(rest.iter().map(|word| (*word).to_owned()).collect()),
        ["docs"] => Task::Docs(docs::PageMode::Write),
        ["docs", "--check"] => Task::Docs(docs::PageMode::Compare),
        ["fuzz", "shell", rest @ ..] => {
            Task::Fuzz(rest.iter().map(|word| (*word).to_owned()).collect())
        }
        ["fuzz", ..] => bail!("expected `fuzz shell [--minutes N] [--seed S]`"),
        [] => bail!("no subcommand: expected one of {SUBCOMMANDS}"),
        [task @ ("check" | "test" | "setup" | "docs"), rest @ ..] => {
            bail!("unexpected argument for `{task}`: `{}`", rest.join(" "))
        }
        [other, ..] => bail!("unknown subcommand `{other}`: expected one of {SUBCOMMANDS}"),
    })
}

fn run(task: Task) -> Result<()> {
    match task {
        Task::Help => print!("{HELP}"),
        Task::Check => check::run()?,
        Task::Test => test::run()?,
        Task::Setup => setup::run()?,
        Task::Bench(options) => {
            setup::for_bench();
            let mut words = vec!["cargo", "bench", "-p", "haft", "--bench", "peers", "--"];
            words.extend(options.iter().map(String::as_str));
            shell::run(&words)?;
        }
        Task::Docs(mode) => docs::run(mode)?,
        Task::Fuzz(options) => {
            let mut words = vec!["cargo", "run", "--release", "-p", "haft-fuzz", "--"];
            words.extend(options.iter().map(String::as_str));
            shell::run(&words)?;
        }
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
        assert_eq!(parsed("bench").unwrap(), Task::Bench(Vec::new()));
        assert_eq!(parsed("docs").unwrap(), Task::Docs(docs::PageMode::Write));
        assert_eq!(parsed("docs --check").unwrap(), Task::Docs(docs::PageMode::Compare));
        let options = vec!["--minutes".to_owned(), "5".to_owned()];
        assert_eq!(parsed("fuzz shell --minutes 5").unwrap(), Task::Fuzz(options));
        assert!(parsed("fuzz").is_err());
        assert_eq!(parsed("--help").unwrap(), Task::Help);
        assert_eq!(parsed("docs --help").unwrap(), Task::Help);
    }

    #[test]
    fn an_unknown_or_missing_subcommand_lists_the_known_ones() {
        for line in ["", "tset", "frobnicate now"] {
            let message = parsed(line).unwrap_err().to_string();
            assert!(message.contains("check, test, docs, setup, bench"), "{message}");
        }
        assert!(parsed("tset").unwrap_err().to_string().contains("`tset`"));
    }

    #[test]
    fn a_stray_argument_is_named() {
        let message = parsed("check --fast").unwrap_err().to_string();
        assert_eq!(message, "unexpected argument for `check`: `--fast`");
    }
}
