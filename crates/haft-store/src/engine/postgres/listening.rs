//! Receives notifications of commits by other processes, on a separate connection. A lost
//! connection is made again; subscribers then query for events that they missed.

use std::{future::poll_fn, pin::pin, time::Duration};

use tokio::{runtime::Handle, time::sleep};
use tokio_postgres::{AsyncMessage, Config};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::{LAST, Postgres, opening};
use crate::areas::feed::{Hub, Post};

const SHORTEST_WAIT: Duration = Duration::from_millis(20);
const LONGEST_WAIT: Duration = Duration::from_secs(1);

impl Postgres {
    /// Listens until there are no subscribers.
    pub(crate) fn listen(&self, post: Post) {
        if let (Ok(runtime), Ok(tls)) = (Handle::try_current(), opening::tls(&self.shown)) {
            runtime.spawn(keep_listening(self.config.clone(), tls, post));
        }
    }
}

async fn keep_listening(config: Config, tls: MakeRustlsConnect, mut post: Post) {
    let hub = post.hub.clone();
    let mut wait = SHORTEST_WAIT;
    loop {
        let mut all_gone = pin!(hub.all_gone.notified());
        all_gone.as_mut().enable();
        if post.may_go() {
            return;
        }
        let heard = tokio::select! {
            () = all_gone => continue,
            heard = listen_once(&config, tls.clone(), &hub) => heard,
        };
        // Subscribers query for events that came since the connection was lost.
        hub.ring();
        wait = if heard { SHORTEST_WAIT } else { (wait * 2).min(LONGEST_WAIT) };
        sleep(wait).await;
    }
}

/// Listens until the connection is lost. Returns true if it was listening.
async fn listen_once(config: &Config, tls: MakeRustlsConnect, hub: &Hub) -> bool {
    let Ok(Ok((client, mut connection))) = tokio::time::timeout(LAST, config.connect(tls)).await
    else {
        return false;
    };
    let mut listen = pin!(client.batch_execute("LISTEN haft_events"));
    let mut is_listening = false;
    loop {
        let message = poll_fn(|context| connection.poll_message(context));
        tokio::select! {
            listening = &mut listen, if !is_listening => match listening {
                Ok(()) => {
                    is_listening = true;
                    // An event may have come before LISTEN took effect.
                    hub.ring();
                }
                Err(_) => return false,
            },
            message = message => match message {
                Some(Ok(AsyncMessage::Notification(_))) => hub.ring(),
                Some(Ok(_)) => {}
                Some(Err(_)) | None => return is_listening,
            },
        }
    }
}
