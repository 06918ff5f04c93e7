//! No host is asked more often than it should be: requests to one host wait for each other.

use std::{collections::HashMap, time::Duration};

use parking_lot::Mutex;

use tokio::time::{Instant, sleep_until};

/// More hosts than this are not kept in mind.
const MOST_HOSTS: usize = 256;

/// When each host may be asked again.
#[derive(Default)]
pub(super) struct Pace {
    next: Mutex<HashMap<String, Instant>>,
}

impl Pace {
    /// Waits for this host's turn. 0 a minute means: as often as anybody likes.
    pub(super) async fn wait(&self, host: &str, per_minute: usize) {
        if let Some(turn) = self.turn(host, per_minute) {
            sleep_until(turn).await;
        }
    }

    fn turn(&self, host: &str, per_minute: usize) -> Option<Instant> {
        let per_minute = u32::try_from(per_minute).ok().filter(|count| *count > 0)?;
        let gap = Duration::from_secs(60) / per_minute;
        let now = Instant::now();
        let mut next = self.next.lock();
        if next.len() >= MOST_HOSTS {
            next.retain(|_, turn| *turn > now);
        }
        let turn = next.get(host).map_or(now, |turn| (*turn).max(now));
        next.insert(host.to_owned(), turn + gap);
        Some(turn)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn one_host_is_asked_in_its_pace_and_others_do_not_wait() {
        let (pace, begin) = (Pace::default(), Instant::now());
        for _ in 0..3 {
            pace.wait("a", 6).await;
        }
        assert_eq!(begin.elapsed(), Duration::from_secs(20));
        pace.wait("b", 6).await;
        pace.wait("c", 0).await;
        assert_eq!(begin.elapsed(), Duration::from_secs(20));
    }
}
