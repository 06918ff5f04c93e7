//! The denials of a program: by its sandbox, and by the limits of all programs together.

use std::{path::Path, sync::Arc};

use haft_core::commands::Denial;

use super::limits::{ControlGroup, LimitHits};
use crate::sandbox::ReportedDenials;

pub(crate) struct LaunchDenials {
    reported: ReportedDenials,
    group: Option<Arc<ControlGroup>>,
    /// The counters before it began, as of the last check.
    before: LimitHits,
}

impl LaunchDenials {
    pub(crate) fn new(reported: ReportedDenials, group: Option<Arc<ControlGroup>>) -> Self {
        let before = group.as_ref().map(|group| group.known_hits()).unwrap_or_default();
        Self { reported, group, before }
    }

    pub(crate) fn read_denial(&self, path: &Path) -> Option<Denial> {
        self.reported.read_denial(path)
    }

    /// A program that succeeded met no limit that matters, so the counters are not read.
    pub(crate) fn refused(&self, has_succeeded: bool) -> Vec<Denial> {
        let group = self.group.as_ref().filter(|_| !has_succeeded);
        let hits = group.map(|group| group.hits().since(self.before));
        let mut all = self.reported.all();
        all.extend(limit_denials(hits.unwrap_or_default()));
        all
    }
}

fn limit_denials(hits: LimitHits) -> impl Iterator<Item = Denial> {
    let refusal = |what: &str, why: &str, key: &str| Denial {
        what: what.to_owned(),
        why: why.to_owned(),
        remedy: format!("do less at once; a person can raise {key} in their config"),
        is_reverted: false,
    };
    let processes = (hits.processes > 0).then(|| {
        let why = "the process limit of all commands is reached";
        refusal("start a process", why, "limits.processes")
    });
    let memory = (hits.memory > 0).then(|| {
        let why = "the commands exceeded their memory limit, and one was ended";
        refusal("more memory", why, "limits.memory_mb")
    });
    processes.into_iter().chain(memory)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_exceeded_limit_is_reported_once_with_its_key() {
        let denials: Vec<Denial> = limit_denials(LimitHits { processes: 900, memory: 0 }).collect();
        assert_eq!(denials.len(), 1);
        assert!(denials[0].remedy.contains("limits.processes"), "{denials:?}");
        assert_eq!(limit_denials(LimitHits { processes: 1, memory: 1 }).count(), 2);
        assert_eq!(limit_denials(LimitHits::default()).count(), 0);
    }
}
