//! Where a client's calls are made: behind the server's own gate, or behind one for the folders that the client works in.
//! Who has said that it has such folders is waited for a moment: its first call must not land somewhere else.

use std::{path::PathBuf, sync::Arc, time::Duration};

use parking_lot::RwLock;

use haft_core::{Gate, ToolError};
use rmcp::{RoleServer, model::ListRootsResult, service::Peer};
use tokio::sync::watch;

use crate::server::Shared;

/// How long a client may take to say where it works. After that it gets the server's own place.
const PATIENCE: Duration = Duration::from_secs(3);

pub(crate) struct Place {
    shared: Arc<Shared>,
    /// The common case, apart from the channel because every call looks here.
    gate: RwLock<Option<Result<Gate, Arc<ToolError>>>>,
    settled: watch::Sender<bool>,
}

impl Place {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        let own = shared.by_roots.is_none().then(|| Ok(shared.gate.clone()));
        Self { shared, settled: watch::Sender::new(own.is_some()), gate: RwLock::new(own) }
    }

    fn get(&self) -> Option<Result<Gate, Arc<ToolError>>> {
        self.gate.read().clone()
    }

    fn settle(&self, gate: Result<Gate, Arc<ToolError>>) {
        *self.gate.write() = Some(gate);
        self.settled.send_replace(true);
    }

    /// The gate for this client.
    ///
    /// # Errors
    /// When the folders it works in cannot be worked in.
    pub(crate) async fn gate(
        &self,
        has_roots: impl FnOnce() -> bool,
    ) -> Result<Gate, Arc<ToolError>> {
        if let Some(gate) = self.get() {
            return gate;
        }
        if has_roots() {
            let mut settled = self.settled.subscribe();
            let _ = tokio::time::timeout(PATIENCE, settled.wait_for(|settled| *settled)).await;
        }
        if self.get().is_none() {
            self.settle(Ok(self.shared.gate.clone()));
        }
        self.get().expect("it was settled")
    }

    /// The server's own gate stands in until the client has said where it works.
    pub(crate) fn gate_now(&self) -> Gate {
        match self.get() {
            Some(Ok(gate)) => gate,
            _ => self.shared.gate.clone(),
        }
    }

    /// Asks the client where it works.
    pub(crate) async fn ask(&self, peer: &Peer<RoleServer>) {
        let Some(by_roots) = self.shared.by_roots.clone() else { return };
        let answer = tokio::time::timeout(PATIENCE, peer.list_roots()).await;
        let roots = match answer {
            Ok(Ok(answer)) => folders(&answer),
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

fn folders(answer: &ListRootsResult) -> Vec<PathBuf> {
    answer.roots.iter().filter_map(|root| crate::files::path_of(&root.uri)).collect()
}
