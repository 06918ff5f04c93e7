//! Compares the reader of shell texts with bash: texts are made by a grammar and by changing known ones, run in a sandbox
//! that records every program and every file, and whatever happened must have been named by the reader, or doubted.

use std::time::{Duration, Instant};

use anyhow::Result;
use haft_shell::{DoubtSubject, Reading, read};

mod chance;
mod compare;
mod grammar;
mod mutate;
mod sandbox;
mod trace;

use chance::Chance;
use compare::Problem;
use grammar::Grammar;
use sandbox::Sandbox;

/// Texts per start of the sandbox.
const BATCH: usize = 50;

/// Findings of one kind by one program that are made shorter; further ones are only counted.
const MAX_ALIKE: usize = 3;

/// So often a text that fails is made shorter; each round starts the sandbox a few times.
const MAX_ROUNDS: usize = 4;

/// How long to go on.
#[derive(Clone, Copy, Debug)]
pub enum Limit {
    /// Until so many texts have run.
    Texts(usize),
    /// For so long.
    Time(Duration),
}

/// What a run has found.
#[derive(Debug, Default)]
pub struct Report {
    /// Texts that were made.
    pub made: usize,
    /// Texts that ran; those whose commands the reader doubts are not worth it.
    pub ran: usize,
    /// Programs that the texts executed.
    pub executed: usize,
    /// What the reader did not name.
    pub findings: Vec<Finding>,
    /// Further findings that are like the others.
    pub alike: usize,
}

/// A text that does what the reader did not name.
#[derive(Clone, Debug)]
pub struct Finding {
    /// The seed that makes the text again.
    pub seed: u64,
    /// The text as it was made.
    pub made: String,
    /// The shortest text that still fails.
    pub text: String,
    /// What happened, one problem a line.
    pub happened: String,
    /// What the reader said.
    pub reading: String,
}

impl std::fmt::Display for Finding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { seed, made, text, happened, reading } = self;
        write!(f, "{text}\n  {happened}\n  reader: {reading}\n  seed {seed}: {made:?}")
    }
}

/// Runs all known texts, then as many new ones as the limit allows. `progress` is called after each batch.
pub fn run(
    seed: u64,
    limit: Limit,
    mut progress: impl FnMut(&Report, &[Finding]),
) -> Result<Report> {
    let begin = Instant::now();
    let sandbox = Sandbox::new()?;
    let maker = Maker { grammar: Grammar::new(), seeds: seeds() };
    let mut report = Report::default();
    let mut known: Vec<(u64, String)> = maker.seeds.iter().map(|text| (0, text.clone())).collect();
    let mut next = seed;
    loop {
        let mut batch: Vec<(u64, String)> = Vec::new();
        while batch.len() < BATCH {
            let (seed, text) = known.pop().unwrap_or_else(|| {
                next = next.wrapping_add(1);
                (next, maker.text(next))
            });
            report.made += 1;
            if is_worth_running(&text) {
                batch.push((seed, text));
            }
        }
        let found = examine(&sandbox, &batch, &mut report)?;
        progress(&report, &found);
        report.findings.extend(found);
        let is_over = match limit {
            Limit::Texts(texts) => report.ran >= texts,
            Limit::Time(time) => begin.elapsed() >= time,
        };
        if is_over {
            return Ok(report);
        }
    }
}

struct Maker {
    grammar: Grammar,
    seeds: Vec<String>,
}

impl Maker {
    fn text(&self, seed: u64) -> String {
        let mut chance = Chance::new(seed);
        let known = |chance: &mut Chance| match chance.below(3) {
            0 => chance.pick(&self.seeds).clone(),
            _ => self.grammar.text(chance),
        };
        let text = known(&mut chance);
        if chance.one_in(2) {
            let (other, word) = (known(&mut chance), self.grammar.word(&mut chance));
            return mutate::mutated(&mut chance, &text, &other, &word).replace('\0', "");
        }
        text
    }
}

fn seeds() -> Vec<String> {
    let lines = include_str!("seeds.txt").lines();
    let is_text = |line: &&str| !line.is_empty() && !line.starts_with("# ");
    lines.filter(is_text).map(grammar::unescaped).collect()
}

/// Where the commands are doubted the reader has said all it can.
fn is_worth_running(text: &str) -> bool {
    let reading = read(text);
    let is_doubted = reading.doubts.iter().any(|doubt| doubt.about == DoubtSubject::Commands);
    !is_doubted && !text.trim().is_empty()
}

fn examine(
    sandbox: &Sandbox,
    batch: &[(u64, String)],
    report: &mut Report,
) -> Result<Vec<Finding>> {
    let texts: Vec<String> = batch.iter().map(|(_, text)| text.clone()).collect();
    let events = sandbox.run(&texts)?;
    report.ran += texts.len();
    let is_execution =
        |event: &&trace::Event| matches!(event.action, trace::Action::Executed { .. });
    report.executed += events.iter().flatten().filter(is_execution).count();
    let mut found: Vec<Finding> = Vec::new();
    for ((seed, text), events) in batch.iter().zip(&events) {
        let problems = compare::problems(&read(text), events);
        let Some(problem) = problems.first() else { continue };
        let mark = mark(problem);
        let alike = report
            .findings
            .iter()
            .chain(&found)
            .filter(|finding| finding.happened.starts_with(&mark));
        if alike.count() >= MAX_ALIKE {
            report.alike += 1;
            continue;
        }
        let finding = minimized(sandbox, *seed, text, problem)?;
        let is_known = report.findings.iter().chain(&found).any(|known| known.text == finding.text);
        if is_known {
            report.alike += 1;
        } else {
            found.push(finding);
        }
    }
    Ok(found)
}

/// What findings that are alike begin with.
fn mark(problem: &Problem) -> String {
    let what = problem.what.split(' ').next().unwrap_or_default();
    match problem.kind {
        "executed" => format!("{} by {}: {what}", problem.kind, problem.program),
        kind => format!("{kind} by {}", problem.program),
    }
}

/// Leaves out of a text what it can while it still fails in the same way.
fn minimized(sandbox: &Sandbox, seed: u64, made: &str, problem: &Problem) -> Result<Finding> {
    let (mut text, mut problem) = (made.to_owned(), problem.clone());
    for _ in 0..MAX_ROUNDS {
        let shorter: Vec<String> =
            mutate::shorter(&text).into_iter().filter(|text| is_worth_running(text)).collect();
        if shorter.is_empty() {
            break;
        }
        let mut next = None;
        for chunk in shorter.chunks(20) {
            let events = sandbox.run(chunk)?;
            let fails = |(text, events): (&String, &Vec<trace::Event>)| {
                let problems = compare::problems(&read(text), events);
                let alike = problems.into_iter().find(|found| mark(found) == mark(&problem));
                alike.map(|found| (text.clone(), found))
            };
            next = chunk.iter().zip(&events).find_map(fails);
            if next.is_some() {
                break;
            }
        }
        let Some((shorter, found)) = next else { break };
        (text, problem) = (shorter, found);
    }
    let happened = format!("{}, {}", mark(&problem), problem.what);
    let reading = told(&read(&text));
    Ok(Finding { seed, made: made.to_owned(), text, happened, reading })
}

fn told(reading: &Reading) -> String {
    let commands =
        reading.commands.iter().map(|command| format!("{:?} {}", command.risk, command.text));
    let files = reading.files.iter().map(|file| format!("{:?} {}", file.how, file.path.display()));
    let doubts = reading.doubts.iter().map(|doubt| format!("{:?}: {}", doubt.what, doubt.why));
    commands.chain(files).chain(doubts).collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As many as a test run has time for; `cargo xtask fuzz shell` runs for as long as it is told.
    const TEXTS: usize = 300;
    const SEED: u64 = 17 << 32;

    #[test]
    #[expect(clippy::disallowed_methods, reason = "only the environment tells that this is CI")]
    fn a_bounded_run_finds_nothing() {
        let is_ci = std::env::var_os("CI").is_some_and(|value| value == "true");
        let report = match run(SEED, Limit::Texts(TEXTS), |_, _| {}) {
            Ok(report) => report,
            Err(error) => {
                assert!(!is_ci, "the fuzzer does not run: {error:#}");
                return;
            }
        };
        let found: Vec<String> = report.findings.iter().map(ToString::to_string).collect();
        assert!(found.is_empty(), "{}", found.join("\n\n"));
        assert!(report.executed > TEXTS, "the texts executed only {} programs", report.executed);
    }
}
