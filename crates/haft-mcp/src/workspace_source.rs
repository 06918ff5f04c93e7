//! Selects the gate for a client's calls: the server's own gate, or one for the directories that
//! the client works in. A client that announces such directories gets a moment to send them, so
//! that its first call does not use the wrong workspace.

use std::{path::PathBuf, sync::Arc, time::Duration};

use parking_lot::RwLock;

use haft_core::{Gate, ToolError};
use rmcp::{RoleServer, model::ListRootsResult, service::Peer};
use tokio::sync::watch;

use crate::server::Shared;

/// Time limit for the client to send its directories. After that it gets the server's own gate.
const ROOTS_TIMEOUT: Duration = Duration::from_secs(3);

pub(crate) struct WorkspaceSource {
    shared: Arc<Shared>,
    /// Separate from the channel, because every call reads it.
    gate: RwLock<Option<Result<Gate, Arc<ToolError>>>>,
    settled: watch::Sender<bool>,
}

impl WorkspaceSource {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        let own_gate = shared.by_roots.is_none().then(|| Ok(shared.gate.clone()));
        Self {
            shared,
            settled: watch::Sender::new(own_gate.is_some()),
            gate: RwLock::new(own_gate),
        }
    }

    fn get(&self) -> Option<Result<Gate, Arc<ToolError>>> {
        self.gate.read().clone()
    }

    fn settle(&self, gate: Result<Gate, Arc<ToolError>>) {
        *self.gate.write() = Some(gate);
        self.settled.send_replace(true);
    }

    /// Returns the gate for this client.
    ///
    /// # Errors
    /// When the client's directories cannot be used.
    pub(crate) async fn gate(
        &self,
        has_roots: impl FnOnce() -> bool,
    ) -> Result<Gate, Arc<ToolError>> {
        if let Some(gate) = self.get() {
            return gate;
        }
        if has_roots() {
            let mut settled = self.settled.subscribe();
            let _ = tokio::time::timeout(ROOTS_TIMEOUT, settled.wait_for(|settled| *settled)).await;
        }
        if self.get().is_none() {
            self.settle(Ok(self.shared.gate.clone()));
        }
        self.get().expect("it was settled")
    }

    /// Returns the server's own gate until the client has sent its directories.
    pub(crate) fn gate_now(&self) -> Gate {
        match self.get() {
            Some(Ok(gate)) => gate,
            _ => self.shared.gate.clone(),
        }
    }

    /// Asks the client for its directories.
    pub(crate) async fn ask(&self, peer: &Peer<RoleServer>) {
        let Some(by_roots) = self.shared.by_roots.clone() else { return };
        let answer = tokio::time::timeout(ROOTS_TIMEOUT, peer.list_roots()).await;
        let roots = match answer {
            Ok(Ok(answer)) => directories(&answer),
            _ => Vec::new(),
        };
        let gate = if roots.is_empty() {
            Ok(self.shared.gate.clone())
        } else {
            by_roots(&roots).map_err(Arc::new)
        };
        self.settle(gate);
    }
}

fn directories(answer: &ListRootsResult) -> Vec<PathBuf> {
    answer.roots.iter().filter_map(|root| crate::files::path_of(&root.uri)).collect()
}
