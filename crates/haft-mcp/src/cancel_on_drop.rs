//! Cancels a request to the client whose answer is no longer needed (decided elsewhere, expired or
//! cancelled), so that the client closes its dialog.

use rmcp::{
    RoleServer,
    model::{CancelledNotification, CancelledNotificationParam, RequestId, ServerNotification},
    service::Peer,
};
use tokio::runtime::Handle;

/// A pending request to the client. Cancels the request if dropped before the answer.
pub(crate) struct CancelOnDrop {
    peer: Peer<RoleServer>,
    id: Option<RequestId>,
}

impl CancelOnDrop {
    pub(crate) fn new(peer: &Peer<RoleServer>, id: RequestId) -> Self {
        Self { peer: peer.clone(), id: Some(id) }
    }

    pub(crate) fn answered(mut self) {
        self.id = None;
    }
}

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        let (Some(id), Ok(runtime)) = (self.id.take(), Handle::try_current()) else { return };
        let peer = self.peer.clone();
        let reason = Some("the answer is no longer needed".to_owned());
        let params = CancelledNotificationParam::new(Some(id), reason);
        let cancelled = CancelledNotification::new(params);
        runtime.spawn(async move {
            // A client that has disconnected has no dialog either.
            let _ =
                peer.send_notification(ServerNotification::CancelledNotification(cancelled)).await;
        });
    }
}
