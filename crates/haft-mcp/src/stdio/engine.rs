//! What a conversation over a pipe needs besides the thread that leads it: a runtime. Its threads and descriptors take a tenth of
//! a millisecond, so whoever has to see to something else first has it made meanwhile, by another thread.

use std::{
    io,
    sync::{Arc, OnceLock},
    thread,
};

use tokio::runtime::{Builder, Handle, Runtime};

/// A runtime that may still be in the making. Lasts as long as the process.
#[derive(Clone, Default)]
pub struct Engine(Arc<OnceLock<io::Result<Handle>>>);

impl Engine {
    /// One that is being made from now on.
    pub fn begin() -> Self {
        let engine = Self::default();
        let made = engine.clone();
        // Where there is no thread for it, it is made when it is needed.
        let _ = thread::Builder::new().name("haft-mcp-begin".to_owned()).spawn(move || {
            made.0.get_or_init(make);
        });
        engine
    }

    /// Until it is there. Makes it when nobody has begun with it: on a busy machine the other thread may still wait for its turn.
    pub(super) fn wait(&self) -> io::Result<()> {
        match self.0.get_or_init(make) {
            Ok(_) => Ok(()),
            Err(error) => Err(io::Error::new(error.kind(), error.to_string())),
        }
    }

    /// The runtime, if it is there.
    pub(super) fn made(&self) -> Option<&Handle> {
        self.0.get()?.as_ref().ok()
    }
}

fn make() -> io::Result<Handle> {
    let mut runtime = Builder::new_multi_thread();
    let runtime = runtime.worker_threads(2).enable_all().thread_name("haft-mcp").build()?;
    let runtime: &'static Runtime = Box::leak(Box::new(runtime));
    Ok(runtime.handle().clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_runtime_is_there_once_it_was_waited_for_whoever_made_it() {
        for engine in [Engine::begin(), Engine::default()] {
            engine.wait().expect("threads are to be had");
            let first = engine.made().expect("it is there").id();
            engine.wait().expect("it is there already");
            assert_eq!(engine.clone().made().map(Handle::id), Some(first));
        }
        assert!(Engine::default().made().is_none());
    }
}
