//! A thread that starts helper processes of commands. Children are set to die with the *thread*
//! that created them, so it lives as long as this process.

use std::{io, sync::mpsc, thread};

use parking_lot::Mutex;

type HelperJob = Box<dyn FnOnce() + Send>;

/// Runs a job on that thread and waits for it.
///
/// # Errors
/// When the thread cannot be started.
pub(crate) fn on_helper_thread<T: Send + 'static>(
    job: impl FnOnce() -> T + Send + 'static,
) -> io::Result<T> {
    let (answer, done) = mpsc::channel();
    let job: HelperJob = Box::new(move || {
        let _ = answer.send(job());
    });
    queue()?.send(job).map_err(|_| thread_ended())?;
    done.recv().map_err(|_| thread_ended())
}

fn queue() -> io::Result<mpsc::Sender<HelperJob>> {
    static QUEUE: Mutex<Option<mpsc::Sender<HelperJob>>> = Mutex::new(None);
    let mut queue = QUEUE.lock();
    if let Some(queue) = &*queue {
        return Ok(queue.clone());
    }
    let (sender, jobs) = mpsc::channel::<HelperJob>();
    thread::Builder::new()
        .name("haft-helper".to_owned())
        .spawn(move || jobs.into_iter().for_each(|job| job()))?;
    Ok(queue.insert(sender).clone())
}

fn thread_ended() -> io::Error {
    io::Error::other("the thread that starts programs is thread_ended")
}
