//! Hears what other processes commit to the database, on a connection of its own. One that is cut is made again, and whoever
//! waits looks for what came meanwhile.

use std::{future::poll_fn, pin::pin, time::Duration};

use tokio::{runtime::Handle, time::sleep};
use tokio_postgres::{AsyncMessage, Config};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::{LAST, Postgres, opening};
use crate::areas::feed::{Hub, Post};

const SHORTEST_WAIT: Duration = Duration::from_millis(20);
const LONGEST_WAIT: Duration = Duration::from_secs(1);

impl Postgres {
    /// Listens until nobody waits.
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
        // Whatever came since the connection was cut is found by looking.
        hub.ring();
        wait = if heard { SHORTEST_WAIT } else { (wait * 2).min(LONGEST_WAIT) };
        sleep(wait).await;
    }
}

/// Until the connection is cut. Whether there was one.
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
                    // Something may have come before this.
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
