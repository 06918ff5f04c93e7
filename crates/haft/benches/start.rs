//! Measures the start of the real binary against `true`, interleaved, so that a busy moment affects
//! all of them. Goals: at most 2x of `true` for `haft --version`, at most 3x for `haft hello`.
//!
//!     cargo bench -p haft --bench start

use std::{
    io::Write,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

const ROUNDS: usize = 300;

fn main() -> std::io::Result<()> {
    let haft = env!("CARGO_BIN_EXE_haft");
    let subjects: [(&str, &str, &[&str]); 4] = [
        ("true", "true", &[]),
        ("haft --version", haft, &["--version"]),
        ("haft hello Ada", haft, &["hello", "Ada"]),
        ("haft call hello", haft, &["call", "hello", r#"{"name":"Ada"}"#]),
    ];
    let mut times: Vec<Vec<Duration>> = vec![Vec::with_capacity(ROUNDS); subjects.len()];
    for _ in 0..ROUNDS {
        for ((_, program, arguments), times) in subjects.iter().zip(&mut times) {
            times.push(spawn(program, arguments)?);
        }
    }
    let mut out = std::io::stdout().lock();
    let floor = median(&mut times[0]);
    writeln!(
        out,
        "{:<18} {:>9} {:>7}   ({ROUNDS} rounds, interleaved)",
        "program", "median", "ratio"
    )?;
    for ((name, ..), times) in subjects.iter().zip(&mut times) {
        let median = median(times);
        let ratio = median.as_secs_f64() / floor.as_secs_f64();
        writeln!(out, "{name:<18} {:>6} us {ratio:>6.2}x", median.as_micros())?;
    }
    Ok(())
}

fn spawn(program: &str, arguments: &[&str]) -> std::io::Result<Duration> {
    let began = Instant::now();
    let status = Command::new(program).args(arguments).stdout(Stdio::null()).status()?;
    let took = began.elapsed();
    assert!(status.success(), "{program} {arguments:?} failed");
    Ok(took)
}

fn median(times: &mut [Duration]) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}
