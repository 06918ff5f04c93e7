//! Receives notifications of commits by other processes, on a separate connection. A lost
//! connection is made again; subscribers then query for events that they missed.

use std::{future::poll_fn, pin::pin, time::Duration};

use tokio::{runtime::Handle, time::sleep};
use tokio_postgres::{AsyncMessage, Config};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::{CLIENT_TIMEOUT, Postgres, opening};
use crate::areas::feed::{FeedHub, WatcherGuard};

const MIN_WAIT: Duration = Duration::from_millis(20);
const MAX_WAIT: Duration = Duration::from_secs(1);

impl Postgres {
    /// Listens until the last subscriber is gone.
    pub(crate) fn listen(&self, guard: WatcherGuard) {
        if let (Ok(runtime), Ok(tls)) = (Handle::try_current(), opening::tls(&self.shown)) {
            runtime.spawn(keep_listening(self.config.clone(), tls, guard));
        }
    }
}

async fn keep_listening(config: Config, tls: MakeRustlsConnect, mut guard: WatcherGuard) {
    let hub = guard.hub.clone();
    let mut wait = MIN_WAIT;
    loop {
        let mut no_subscribers = pin!(hub.no_subscribers.notified());
        no_subscribers.as_mut().enable();
        if guard.end_if_unused() {
            return;
        }
        let was_listening = tokio::select! {
            () = no_subscribers => continue,
            was_listening = listen_once(&config, tls.clone(), &hub) => was_listening,
        };
        // Subscribers query for events that came since the connection was lost.
        hub.notify();
        wait = if was_listening { MIN_WAIT } else { (wait * 2).min(MAX_WAIT) };
        sleep(wait).await;
    }
}

/// Listens until the connection is lost. Returns true if it was listening.
async fn listen_once(config: &Config, tls: MakeRustlsConnect, hub: &FeedHub) -> bool {
    let Ok(Ok((client, mut connection))) =
        tokio::time::timeout(CLIENT_TIMEOUT, config.connect(tls)).await
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
                    hub.notify();
                }
                Err(_) => return false,
            },
            message = message => match message {
                Some(Ok(AsyncMessage::Notification(_))) => hub.notify(),
                Some(Ok(_)) => {}
                Some(Err(_)) | None => return is_listening,
            },
        }
    }
}
