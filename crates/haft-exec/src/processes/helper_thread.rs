//! A thread that starts helper processes of commands. Children are set to die with the *thread*
//! that created them, so it lives as long as this process.

use std::{io, sync::mpsc, thread};

use parking_lot::Mutex;

type Job = Box<dyn FnOnce() + Send>;

/// Runs a job on that thread and waits for it.
///
/// # Errors
/// When the thread cannot be started.
pub(crate) fn on_helper_thread<T: Send + 'static>(
    job: impl FnOnce() -> T + Send + 'static,
) -> io::Result<T> {
    let (answer, done) = mpsc::channel();
    let job: Job = Box::new(move || {
        let _ = answer.send(job());
    });
    queue()?.send(job).map_err(|_| gone())?;
    done.recv().map_err(|_| gone())
}

fn queue() -> io::Result<mpsc::Sender<Job>> {
    static QUEUE: Mutex<Option<mpsc::Sender<Job>>> = Mutex::new(None);
    let mut queue = QUEUE.lock();
    if let Some(queue) = &*queue {
        return Ok(queue.clone());
    }
    let (sender, jobs) = mpsc::channel::<Job>();
    thread::Builder::new()
        .name("haft-aside".to_owned())
        .spawn(move || jobs.into_iter().for_each(|job| job()))?;
    Ok(queue.insert(sender).clone())
}

fn gone() -> io::Error {
    io::Error::other("the thread that starts programs is gone")
}
