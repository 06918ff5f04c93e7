//! Prints the steps of a task: the name before, the duration after, and the name in an error.

use std::time::Instant;

use anyhow::{Context, Result, bail};

pub(crate) fn timed(name: &str, work: impl FnOnce() -> Result<()>) -> Result<()> {
    let start = Instant::now();
    last(name, work)?;
    println!("    {name}: {:.1} s", start.elapsed().as_secs_f64());
    Ok(())
}

/// Runs the last step, without printing anything after the program's own output.
pub(crate) fn last(name: &str, work: impl FnOnce() -> Result<()>) -> Result<()> {
    println!("==> {name}");
    work().with_context(|| format!("{name} failed"))
}

/// Returns all findings in one error, because fixing one at a time would cost a run each.
pub(crate) fn none_of(findings: &[String]) -> Result<()> {
    if !findings.is_empty() {
        bail!("{}", findings.join("\n"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failing_step_is_named_with_all_its_findings() {
        let findings = ["one".to_owned(), "two".to_owned()];
        let error = timed("edges", || none_of(&findings)).unwrap_err();
        assert_eq!(format!("{error:#}"), "edges failed: one\ntwo");
        assert!(timed("edges", || none_of(&[])).is_ok());
    }
}
