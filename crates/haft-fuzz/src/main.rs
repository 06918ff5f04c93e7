//! The program of `cargo xtask fuzz shell`: a long comparison, with its findings at the end.
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a terminal program whose whole output is its report"
)]

use std::{process::ExitCode, time::Duration};

use anyhow::{Context, Result, bail};
use haft_fuzz::{FuzzReport, RunLimit, run};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match parse(&arguments).and_then(fuzz) {
        Ok(report) if report.findings.is_empty() => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("fuzz: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Returns the seed and the running time.
fn parse(arguments: &[String]) -> Result<(u64, Duration)> {
    let (mut seed, mut minutes) = (1, 60);
    let mut arguments = arguments.iter();
    while let Some(name) = arguments.next() {
        let mut number = || -> Result<u64> {
            let value = arguments.next().with_context(|| format!("`{name}` needs a number"))?;
            value.parse().with_context(|| format!("`{name}`: `{value}` is not a number"))
        };
        match name.as_str() {
            "--seed" => seed = number()?,
            "--minutes" => minutes = number()?,
            _ => bail!("unknown argument `{name}`: expected --minutes N or --seed S"),
        }
    }
    Ok((seed, Duration::from_secs(minutes * 60)))
}

fn fuzz((seed, time): (u64, Duration)) -> Result<FuzzReport> {
    let begin = std::time::Instant::now();
    let mut reported = 0;
    // Each seed has its own range, so that a long run does not continue in the range of the next
    // one.
    let report = run(seed.wrapping_mul(1 << 32), RunLimit::Time(time), |report, found| {
        for finding in found {
            println!("FOUND {finding}\n");
        }
        let seconds = begin.elapsed().as_secs();
        if seconds / 10 > reported {
            reported = seconds / 10;
            let per_second = report.ran as u64 / seconds.max(1);
            let findings = report.findings.len() + found.len();
            eprintln!(
                "{seconds} s: {} texts made, {} run, {per_second} per second, {findings} findings",
                report.made, report.ran
            );
        }
    })?;
    println!(
        "{} texts made, {} run, {} programs executed",
        report.made, report.ran, report.executed
    );
    println!("{} findings, {} more that are similar", report.findings.len(), report.alike);
    for finding in &report.findings {
        println!("\n{finding}");
    }
    Ok(report)
}
