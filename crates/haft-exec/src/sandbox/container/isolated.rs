//! A launch in a container, as the code sees it that ends, counts and watches launches.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use haft_core::ToolError;

use super::warm::WarmContainer;
use crate::processes::backend::IsolatedLaunch;

pub(super) struct ContainerLaunch {
    warm: Arc<WarmContainer>,
    /// The mark of its processes.
    mark: String,
    /// True when none of its processes is left.
    is_over: AtomicBool,
}

impl ContainerLaunch {
    pub(super) fn new(warm: Arc<WarmContainer>, mark: &str) -> Arc<Self> {
        warm.begin();
        Arc::new(Self { warm, mark: mark.to_owned(), is_over: AtomicBool::new(false) })
    }

    fn finish(&self) {
        if !self.is_over.swap(true, Ordering::AcqRel) {
            self.warm.finish();
        }
    }
}

impl IsolatedLaunch for ContainerLaunch {
    fn ask_to_end(&self) {
        self.warm.ask(&format!("ask {}", self.mark));
    }

    fn end(&self) {
        if self.is_over.load(Ordering::Acquire) {
            return;
        }
        let left = self.warm.ask(&format!("end {}", self.mark));
        if left.as_deref() != Some("0") {
            // The supervisor does not respond, or a process does not die: end the whole container.
            self.warm.end();
        }
        self.finish();
    }

    fn left(&self) -> Option<usize> {
        if self.is_over.load(Ordering::Acquire) {
            return Some(0);
        }
        let left = self.warm.ask(&format!("left {}", self.mark))?.parse().ok();
        if left == Some(0) {
            self.finish();
        }
        left
    }

    fn listens(&self, port: u16) -> bool {
        !self.is_over.load(Ordering::Acquire)
            && self.warm.ask(&format!("listens {port:04X}")).as_deref() == Some("yes")
    }

    fn lost(&self) -> ToolError {
        ToolError::unavailable(format!(
            "the container `{}` disappeared while the command ran in it",
            self.warm.name
        ))
        .hint("it was removed, its engine ended, or it ran out of memory; the next command gets a new one")
    }
}

impl Drop for ContainerLaunch {
    fn drop(&mut self) {
        self.finish();
    }
}
