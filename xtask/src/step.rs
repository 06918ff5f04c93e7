//! How a run of several steps is told: name before, duration after, name again in the error.

use std::time::Instant;

use anyhow::{Context, Result, bail};

pub(crate) fn timed(name: &str, work: impl FnOnce() -> Result<()>) -> Result<()> {
    let start = Instant::now();
    last(name, work)?;
    println!("    {name}: {:.1} s", start.elapsed().as_secs_f64());
    Ok(())
}

/// A step after which nothing is printed, so that the program it runs has the last word.
pub(crate) fn last(name: &str, work: impl FnOnce() -> Result<()>) -> Result<()> {
    println!("==> {name}");
    work().with_context(|| format!("{name} failed"))
}

/// All findings in one error, because mending one rule at a time wastes a run each.
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
