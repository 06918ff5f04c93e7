//! Work that makes more work, shared among threads: whoever is free takes the newest task. Nothing here knows what the
//! work is.

use std::{num::NonZero, ops::ControlFlow, sync::LazyLock, thread};

use parking_lot::{Condvar, Mutex, MutexGuard};

/// More threads than this wait for each other and for the disk.
const MOST_WORKERS: usize = 12;
/// Kept, because asking reads files of the system's.
static WORKERS: LazyLock<usize> =
    LazyLock::new(|| thread::available_parallelism().map_or(1, NonZero::get).min(MOST_WORKERS));
/// With fewer tasks waiting, one thread is done before a second one has started.
const WORTH_SHARING: usize = 4;

/// Does the first task and all that come of it. `step` puts new tasks into its last argument; when it breaks off, all
/// workers stop. Returns the workers, in no order.
///
/// # Panics
/// When `step` does: the others are stopped before.
pub(crate) fn share<T: Send, W: Send>(
    first: T,
    make: impl Fn() -> W + Sync,
    step: impl Fn(&mut W, T, &mut Vec<T>) -> ControlFlow<()> + Sync,
) -> Vec<W> {
    let crew = Crew {
        state: Mutex::new(State { tasks: vec![first], ..State::default() }),
        wake: Condvar::new(),
    };
    thread::scope(|scope| {
        let mut helpers = Vec::new();
        let mut worker = make();
        crew.work(&mut worker, &step, |waiting| {
            if waiting < WORTH_SHARING || !helpers.is_empty() {
                return;
            }
            let help = || {
                let mut worker = make();
                crew.work(&mut worker, &step, |_| {});
                worker
            };
            // A thread that cannot be had is no failure: there is one fewer.
            helpers.extend((1..*WORKERS).filter_map(|_| {
                thread::Builder::new().name("haft-walk".into()).spawn_scoped(scope, help).ok()
            }));
        });
        let mut workers = vec![worker];
        for helper in helpers {
            match helper.join() {
                Ok(worker) => workers.push(worker),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        workers
    })
}

struct Crew<T> {
    state: Mutex<State<T>>,
    wake: Condvar,
}

struct State<T> {
    tasks: Vec<T>,
    /// Workers with a task in hand: it may still make others.
    busy: usize,
    idle: usize,
    is_over: bool,
}

impl<T> Default for State<T> {
    fn default() -> Self {
        Self { tasks: Vec::new(), busy: 0, idle: 0, is_over: false }
    }
}

impl<T> Crew<T> {
    fn work<W>(
        &self,
        worker: &mut W,
        step: &impl Fn(&mut W, T, &mut Vec<T>) -> ControlFlow<()>,
        mut told: impl FnMut(usize),
    ) {
        // Ends the work for all also when `step` panics, or the others would wait for this one for ever.
        let _over = EndsAll(self);
        let mut new = Vec::new();
        let mut next = self.next(&mut new, 0);
        while let Some((task, waiting)) = next {
            told(waiting);
            if step(worker, task, &mut new).is_break() {
                return;
            }
            next = self.next(&mut new, 1);
        }
    }

    /// Hands in the tasks that the last one made (`done` is 1 then) and takes another; `None` when all is done.
    fn next(&self, new: &mut Vec<T>, done: usize) -> Option<(T, usize)> {
        let mut state = self.lock();
        state.busy -= done;
        state.tasks.append(new);
        if state.idle > 0 && state.tasks.len() > 1 {
            self.wake.notify_all();
        }
        loop {
            if state.is_over {
                return None;
            }
            if let Some(task) = state.tasks.pop() {
                state.busy += 1;
                return Some((task, state.tasks.len()));
            }
            if state.busy == 0 {
                return None;
            }
            state.idle += 1;
            self.wake.wait(&mut state);
            state.idle -= 1;
        }
    }

    fn lock(&self) -> MutexGuard<'_, State<T>> {
        // Nothing panics while it is held.
        self.state.lock()
    }
}

/// A worker leaves only when there is nothing left to do, was told to stop, or panics: each time it is over for all.
struct EndsAll<'a, T>(&'a Crew<T>);

impl<T> Drop for EndsAll<'_, T> {
    fn drop(&mut self) {
        self.0.lock().is_over = true;
        self.0.wake.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;

    /// Every number makes two of one less.
    fn split(count: &mut usize, number: u32, new: &mut Vec<u32>) -> ControlFlow<()> {
        *count += 1;
        new.extend(number.checked_sub(1).map(|less| [less; 2]).into_iter().flatten());
        ControlFlow::Continue(())
    }

    #[test]
    fn all_work_is_done_once() {
        for depth in [0, 1, 5, 14] {
            let counts = share(depth, || 0, split);
            assert_eq!(counts.iter().sum::<usize>(), (2 << depth) - 1, "depth {depth}");
        }
    }

    #[test]
    fn breaking_off_ends_it_for_all() {
        let counts = share(
            40,
            || 0,
            |count, number, new| {
                let _ = split(count, number, new);
                if *count > 100 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            },
        );
        assert!(counts.iter().sum::<usize>() < 2_000);
    }

    #[test]
    fn a_panic_is_passed_on_and_nobody_waits_for_ever() {
        let shared = catch_unwind(AssertUnwindSafe(|| {
            share(
                12,
                || 0,
                |count, number, new| {
                    assert!(*count < 50, "on purpose");
                    split(count, number, new)
                },
            )
        }));
        assert!(shared.is_err());
    }
}
