//! Limits the rate of requests per host: requests to one host wait for each other.

use std::{collections::HashMap, time::Duration};

use parking_lot::Mutex;

use tokio::time::{Instant, sleep_until};

/// Maximum number of hosts that are tracked.
const MAX_HOSTS: usize = 256;

/// The time when each host may be contacted again.
#[derive(Default)]
pub(super) struct RateLimiter {
    next: Mutex<HashMap<String, Instant>>,
}

impl RateLimiter {
    /// Waits until a request to this host is allowed. 0 per minute means unlimited.
    pub(super) async fn wait(&self, host: &str, per_minute: usize) {
        if let Some(next_slot) = self.next_slot(host, per_minute) {
            sleep_until(next_slot).await;
        }
    }

    fn next_slot(&self, host: &str, per_minute: usize) -> Option<Instant> {
        let per_minute = u32::try_from(per_minute).ok().filter(|count| *count > 0)?;
        let gap = Duration::from_secs(60) / per_minute;
        let now = Instant::now();
        let mut next = self.next.lock();
        if next.len() >= MAX_HOSTS {
            next.retain(|_, next_slot| *next_slot > now);
        }
        let next_slot = next.get(host).map_or(now, |next_slot| (*next_slot).max(now));
        next.insert(host.to_owned(), next_slot + gap);
        Some(next_slot)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn one_host_is_asked_in_its_pace_and_others_do_not_wait() {
        let (pace, begin) = (RateLimiter::default(), Instant::now());
        for _ in 0..3 {
            pace.wait("a", 6).await;
        }
        assert_eq!(begin.elapsed(), Duration::from_secs(20));
        pace.wait("b", 6).await;
        pace.wait("c", 0).await;
        assert_eq!(begin.elapsed(), Duration::from_secs(20));
    }
}
