//! Statistics of calls.

use std::collections::BTreeMap;

use haft_core::LedgerEntry;
use serde_json::{Value, json};

use crate::safe_text::shown_in_line;

#[derive(Default)]
pub(super) struct Figures {
    all: Times,
    tools: BTreeMap<String, Times>,
    decisions: BTreeMap<&'static str, u64>,
    errors: BTreeMap<&'static str, u64>,
}

/// Durations of calls. All are kept, a few bytes each, so that the percentiles are exact.
#[derive(Default)]
struct Times {
    /// Durations, each with the number of calls.
    ms: Vec<(u64, u64)>,
    errors: u64,
}

impl Times {
    fn add(&mut self, entry: &LedgerEntry) {
        self.ms.push((entry.ms, entry.calls()));
        self.errors += if entry.error.is_some() { entry.calls() } else { 0 };
    }

    fn calls(&self) -> u64 {
        self.ms.iter().map(|(_, calls)| calls).sum()
    }

    /// Returns the smallest duration that `percent` of 100 calls did not exceed.
    fn percentile(&self, percent: u64) -> u64 {
        let mut sorted = self.ms.clone();
        sorted.sort_unstable();
        let mut rank = (self.calls() * percent).div_ceil(100).max(1);
        for (ms, calls) in sorted {
            if rank <= calls {
                return ms;
            }
            rank -= calls;
        }
        0
    }

    fn json(&self) -> Value {
        json!({
            "calls": self.calls(), "errors": self.errors,
            "p50_ms": self.percentile(50), "p95_ms": self.percentile(95),
        })
    }

    fn line(&self, name: &str, width: usize) -> String {
        let gap = " ".repeat(width.saturating_sub(name.chars().count()));
        let (calls, p50, p95) = (self.calls(), self.percentile(50), self.percentile(95));
        format!("{name}{gap}  {calls:>8}  {p50:>8}  {p95:>8}  {:>8}", self.errors)
    }
}

impl Figures {
    pub(super) fn add(&mut self, entry: &LedgerEntry) {
        self.all.add(entry);
        self.tools.entry(shown_in_line(&entry.tool).into()).or_default().add(entry);
        let action = entry.decision.as_ref().map_or("none", |decision| decision.action.name());
        *self.decisions.entry(action).or_default() += entry.calls();
        if let Some(error) = entry.error {
            *self.errors.entry(error.name()).or_default() += entry.calls();
        }
    }

    pub(super) fn json(&self) -> Value {
        let tools: serde_json::Map<String, Value> =
            self.tools.iter().map(|(name, times)| (name.clone(), times.json())).collect();
        let mut json = self.all.json();
        json["by_tool"] = Value::Object(tools);
        json["by_decision"] = json!(self.decisions);
        json["by_error"] = json!(self.errors);
        json
    }

    pub(super) fn text(&self) -> String {
        let width = self.tools.keys().map(|name| name.chars().count()).max().unwrap_or(0).max(9);
        let head = format!(
            "{}  {:>8}  {:>8}  {:>8}  {:>8}",
            " ".repeat(width),
            "calls",
            "p50 ms",
            "p95 ms",
            "errors"
        );
        let mut lines = vec![head, self.all.line("all calls", width)];
        let mut tools: Vec<_> = self.tools.iter().collect();
        tools.sort_by_key(|(_, times)| std::cmp::Reverse(times.calls()));
        lines.extend(tools.into_iter().map(|(name, times)| times.line(name, width)));
        for (title, counts) in [("decisions", &self.decisions), ("errors", &self.errors)] {
            if !counts.is_empty() {
                let each = counts.iter().map(|(name, count)| format!("{name} {count}"));
                lines.push(format!("{title}: {}", each.collect::<Vec<_>>().join(", ")));
            }
        }
        lines.join("\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(ms: &[u64], p50: u64, p95: u64) {
        let times = Times { ms: ms.iter().map(|ms| (*ms, 1)).collect(), errors: 0 };
        assert_eq!((times.percentile(50), times.percentile(95)), (p50, p95), "{ms:?}");
    }

    #[test]
    fn percentiles_are_times_that_were_measured() {
        check(&[], 0, 0);
        check(&[7], 7, 7);
        check(&[3, 1, 2], 2, 3);
        check(&(1..=100).collect::<Vec<_>>(), 50, 95);
        check(&[1, 1, 1, 1000], 1, 1000);
        let times = Times { ms: vec![(5, 1), (1, 3)], errors: 0 };
        assert_eq!((times.calls(), times.percentile(50), times.percentile(95)), (4, 1, 5));
    }
}
