//! Which files of the workspace programs must not see: what secrecy and rules close to the tools is closed to what tools
//! start. Who builds a fence covers them. They are looked for by name in the whole workspace, with what ignore files name,
//! since that is where secrets are.

use std::{
    collections::HashMap,
    ops::ControlFlow,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread,
    time::{Duration, Instant},
};

use haft_core::{ToolError, files::Warrant};

use crate::{
    Workspace,
    walk::{Met, Start, Visitor, Walk},
};

/// As for a search by name.
const BATCH: usize = 1024;
/// A look that takes no longer is made before each program; others are repeated meanwhile.
const QUICK: Duration = Duration::from_millis(3);
/// How old the result of a long look may be before it is repeated.
const FRESH: Duration = Duration::from_secs(2);
/// A look that takes longer is broken off: the first program would not start at all.
const LONGEST: Duration = Duration::from_secs(10);
/// As many mounts as a program can still be started behind in no time.
const MOST: usize = 256;

/// A file or directory that is closed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Closed {
    pub(crate) path: PathBuf,
    pub(crate) is_directory: bool,
}

/// What was found, for each who asks.
#[derive(Clone, Default)]
pub(crate) struct Closures(Arc<Mutex<HashMap<String, Found>>>);

#[derive(Clone)]
struct Found {
    closed: Arc<Vec<Closed>>,
    at: Instant,
    took: Duration,
    is_being_repeated: bool,
}

impl Closures {
    /// What is closed to a program with this warrant.
    ///
    /// # Errors
    /// Of kind `unavailable` when it is too much to be covered.
    pub(crate) fn of(
        &self,
        workspace: &Arc<Workspace>,
        warrant: &Warrant,
    ) -> Result<Arc<Vec<Closed>>, ToolError> {
        let bearer = warrant.bearer();
        let known = self.lock().get(&bearer).cloned();
        let found = match known {
            Some(found) if found.took > QUICK => {
                self.repeat_if_old(&bearer, &found, workspace, warrant);
                found
            }
            _ => {
                let found = look(workspace, warrant)?;
                self.lock().insert(bearer, found.clone());
                found
            }
        };
        match found.closed.len() {
            0..=MOST => Ok(found.closed),
            many => Err(too_many(many, &found.closed)),
        }
    }

    fn repeat_if_old(
        &self,
        bearer: &str,
        found: &Found,
        workspace: &Arc<Workspace>,
        warrant: &Warrant,
    ) {
        if found.is_being_repeated || found.at.elapsed() < FRESH {
            return;
        }
        if let Some(found) = self.lock().get_mut(bearer) {
            found.is_being_repeated = true;
        }
        let (all, bearer) = (self.clone(), bearer.to_owned());
        let (workspace, warrant) = (workspace.clone(), warrant.clone());
        let look = move || match look(&workspace, &warrant) {
            Ok(found) => drop(all.lock().insert(bearer, found)),
            // The next program looks itself, and tells.
            Err(_) => drop(all.lock().remove(&bearer)),
        };
        // Without a thread the next program tries again.
        let _ = thread::Builder::new().name("haft-closed".to_owned()).spawn(look);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Found>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn look(workspace: &Workspace, warrant: &Warrant) -> Result<Found, ToolError> {
    let begun = Instant::now();
    let stop = || begun.elapsed() > LONGEST;
    let mut closed = Vec::new();
    for root in &workspace.roots {
        let shown = root.shown(Path::new(""));
        let start = Start::directory(workspace, &shown, &Warrant::none())?;
        let walk =
            Walk { start: &start, warrant, stop: &stop, globs: None, ignored: true, batch: BATCH };
        let prefix = PathBuf::from(String::from_utf8_lossy(&start.prefix()).into_owned());
        for passed in walk.run(Passed::default).visitors {
            closed.extend(passed.0.into_iter().map(|(path, is_directory)| {
                let below = path.strip_prefix(&prefix).unwrap_or(&path);
                Closed { path: root.path.join(below), is_directory }
            }));
        }
    }
    closed.sort_unstable();
    let took = begun.elapsed();
    Ok(Found { closed: Arc::new(closed), at: Instant::now(), took, is_being_repeated: false })
}

fn too_many(count: usize, closed: &[Closed]) -> ToolError {
    let example = closed.first().map(|closed| closed.path.display().to_string());
    let message = format!(
        "the workspace has {count} secret files (`{}`, …), more than the {MOST} that a sandbox covers",
        example.unwrap_or_default()
    );
    ToolError::unavailable(message).hint(
        "say which are no secrets: a glob such as `tests/**` under secrets.except in the config",
    )
}

/// What one worker has passed by.
#[derive(Default)]
struct Passed(Vec<(PathBuf, bool)>);

impl Visitor for Passed {
    const MEETS_LINKS: bool = true;

    fn meet(&mut self, _file: &Met<'_>) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }

    fn pass(&mut self, path: &Path, is_directory: bool) {
        self.0.push((path.to_owned(), is_directory));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_look_is_repeated_meanwhile_and_a_quick_one_each_time() {
        let folder = tempfile::tempdir().expect("a folder");
        let workspace = Arc::new(Workspace::open(folder.path()).expect("a directory"));
        let closures = Closures::default();
        let ask = || closures.of(&workspace, &Warrant::none()).expect("few");
        let old = Instant::now().checked_sub(FRESH * 2).expect("the machine runs for longer");
        let put = |took, at| {
            let closed = Arc::new(vec![Closed { path: "x".into(), is_directory: false }]);
            let found = Found { closed, at, took, is_being_repeated: false };
            closures.lock().insert(Warrant::none().bearer(), found);
        };
        assert!(ask().is_empty());
        put(QUICK, Instant::now());
        assert!(ask().is_empty(), "looked again");
        put(QUICK * 2, Instant::now());
        assert_eq!(ask().len(), 1, "taken as it was");
        put(QUICK * 2, old);
        assert_eq!(ask().len(), 1, "nobody waits");
        let begun = Instant::now();
        while !closures.lock().values().all(|found| found.closed.is_empty()) {
            assert!(begun.elapsed() < Duration::from_secs(60), "looked again meanwhile");
            thread::yield_now();
        }
    }

    #[test]
    fn more_than_can_be_covered_is_refused_with_a_way_out() {
        let many: Vec<Closed> = (0..=MOST)
            .map(|number| Closed { path: format!("/w/{number}.pem").into(), is_directory: false })
            .collect();
        let error = too_many(many.len(), &many);
        assert_eq!(error.kind(), haft_core::ErrorKind::Unavailable);
        assert!(error.message().contains("257 secret files (`/w/0.pem`"), "{error}");
        assert!(error.next_step().contains("secrets.except"), "{error}");
    }
}
