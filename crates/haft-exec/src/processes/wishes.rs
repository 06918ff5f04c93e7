//! What a program wanted and did not get: from the fence around it, and from the limits of all programs together.

use std::{path::Path, sync::Arc};

use haft_core::commands::Denial;

use super::limits::{Group, Hits};
use crate::sandbox::Noted;

pub(crate) struct Wishes {
    noted: Noted,
    group: Option<Arc<Group>>,
    /// What others had met before it began, as far as anybody had looked.
    before: Hits,
}

impl Wishes {
    pub(crate) fn new(noted: Noted, group: Option<Arc<Group>>) -> Self {
        let before = group.as_ref().map(|group| group.known_hits()).unwrap_or_default();
        Self { noted, group, before }
    }

    pub(crate) fn read_denial(&self, path: &Path) -> Option<Denial> {
        self.noted.read_denial(path)
    }

    /// Whoever has succeeded has met no limit that matters, and nobody has to look.
    pub(crate) fn refused(&self, has_succeeded: bool) -> Vec<Denial> {
        let group = self.group.as_ref().filter(|_| !has_succeeded);
        let hits = group.map(|group| group.hits().since(self.before));
        let mut all = self.noted.all();
        all.extend(of_limits(hits.unwrap_or_default()));
        all
    }
}

fn of_limits(hits: Hits) -> impl Iterator<Item = Denial> {
    let refusal = |what: &str, why: &str, key: &str| Denial {
        what: what.to_owned(),
        why: why.to_owned(),
        remedy: format!("do less at once; a person can raise {key} in their config"),
        is_reverted: false,
    };
    let processes = (hits.processes > 0).then(|| {
        let why = "the commands that run here have as many processes as they may";
        refusal("start a process", why, "limits.processes")
    });
    let memory = (hits.memory > 0).then(|| {
        let why = "the commands that run here have used up their memory, and one was ended";
        refusal("more memory", why, "limits.memory_mb")
    });
    processes.into_iter().chain(memory)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_that_was_met_is_told_once_and_with_its_key() {
        let told: Vec<Denial> = of_limits(Hits { processes: 900, memory: 0 }).collect();
        assert_eq!(told.len(), 1);
        assert!(told[0].remedy.contains("limits.processes"), "{told:?}");
        assert_eq!(of_limits(Hits { processes: 1, memory: 1 }).count(), 2);
        assert_eq!(of_limits(Hits::default()).count(), 0);
    }
}
