//! Runs tasks that create more tasks on several threads: a free worker takes the newest task. This
//! module does not know what the tasks are.

use std::{num::NonZero, ops::ControlFlow, sync::LazyLock, thread};

use parking_lot::{Condvar, Mutex, MutexGuard};

/// With more threads they wait for each other and for the disk.
const MAX_WORKERS: usize = 12;
/// Cached, because determining it reads files of the system.
static WORKERS: LazyLock<usize> =
    LazyLock::new(|| thread::available_parallelism().map_or(1, NonZero::get).min(MAX_WORKERS));
/// With fewer waiting tasks, one thread is done before a second one has started.
const MIN_SHARED_TASKS: usize = 4;

/// Runs the first task and all tasks that follow from it. `step` puts new tasks into its last
/// argument; when it returns `Break`, all workers stop. Returns the workers, in no order.
///
/// # Panics
/// When `step` panics: the other workers are stopped first.
pub(crate) fn share<T: Send, W: Send>(
    first: T,
    make: impl Fn() -> W + Sync,
    step: impl Fn(&mut W, T, &mut Vec<T>) -> ControlFlow<()> + Sync,
) -> Vec<W> {
    let queue = TaskQueue {
        state: Mutex::new(State { tasks: vec![first], ..State::default() }),
        wake: Condvar::new(),
    };
    thread::scope(|scope| {
        let mut helpers = Vec::new();
        let mut worker = make();
        queue.work(&mut worker, &step, |waiting| {
            if waiting < MIN_SHARED_TASKS || !helpers.is_empty() {
                return;
            }
            let help = || {
                let mut worker = make();
                queue.work(&mut worker, &step, |_| {});
                worker
            };
            // If a thread cannot be started, there is one worker fewer.
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

struct TaskQueue<T> {
    state: Mutex<State<T>>,
    wake: Condvar,
}

struct State<T> {
    tasks: Vec<T>,
    /// Number of workers that run a task, which may still create others.
    busy: usize,
    idle: usize,
    is_over: bool,
}

impl<T> Default for State<T> {
    fn default() -> Self {
        Self { tasks: Vec::new(), busy: 0, idle: 0, is_over: false }
    }
}

impl<T> TaskQueue<T> {
    fn work<W>(
        &self,
        worker: &mut W,
        step: &impl Fn(&mut W, T, &mut Vec<T>) -> ControlFlow<()>,
        mut on_waiting: impl FnMut(usize),
    ) {
        // Ends the work for all workers also when `step` panics; otherwise they would wait for this
        // one forever.
        let _over = StopOnDrop(self);
        let mut new = Vec::new();
        let mut next = self.next(&mut new, 0);
        while let Some((task, waiting)) = next {
            on_waiting(waiting);
            if step(worker, task, &mut new).is_break() {
                return;
            }
            next = self.next(&mut new, 1);
        }
    }

    /// Adds the tasks that the last one created (`done` is 1 then) and takes another; `None` when
    /// all are done.
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
        // No code panics while holding it.
        self.state.lock()
    }
}

/// A worker leaves only when no work is left, when it was stopped, or when it panics: in each case
/// the work ends for all.
struct StopOnDrop<'a, T>(&'a TaskQueue<T>);

impl<T> Drop for StopOnDrop<'_, T> {
    fn drop(&mut self) {
        self.0.lock().is_over = true;
        self.0.wake.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;

    /// Every number creates two tasks of one less.
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
    fn a_panic_is_passed_on_and_no_worker_waits_forever() {
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
