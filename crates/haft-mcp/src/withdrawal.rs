//! A question that nobody needs an answer to any more (decided elsewhere, lapsed, called off) is withdrawn, so that the
//! client takes its dialog away.

use rmcp::{
    RoleServer,
    model::{CancelledNotification, CancelledNotificationParam, RequestId, ServerNotification},
    service::Peer,
};
use tokio::runtime::Handle;

/// A question on its way. Dropped before its answer it is withdrawn.
pub(crate) struct Question {
    peer: Peer<RoleServer>,
    id: Option<RequestId>,
}

impl Question {
    pub(crate) fn new(peer: &Peer<RoleServer>, id: RequestId) -> Self {
        Self { peer: peer.clone(), id: Some(id) }
    }

    pub(crate) fn answered(mut self) {
        self.id = None;
    }
}

impl Drop for Question {
    fn drop(&mut self) {
        let (Some(id), Ok(runtime)) = (self.id.take(), Handle::try_current()) else { return };
        let peer = self.peer.clone();
        let reason = Some("nobody waits for the answer any more".to_owned());
        let params = CancelledNotificationParam::new(Some(id), reason);
        let withdrawn = CancelledNotification::new(params);
        runtime.spawn(async move {
            // A client that is gone has no dialog either.
            let _ =
                peer.send_notification(ServerNotification::CancelledNotification(withdrawn)).await;
        });
    }
}
