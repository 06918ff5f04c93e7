//! Caches recently read pages, few, small and only for minutes, so that a page is not fetched again
//! when it is shown in another form or continued.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use parking_lot::Mutex;

use haft_core::network::Response;
use tokio::time::Instant;

/// Maximum size of all bodies together.
const MAX_BYTES: usize = 8 << 20;
const MAX_PAGES: usize = 32;
/// Maximum freshness, whatever the server says.
const MAX_FRESHNESS: Duration = Duration::from_secs(300);
/// Time that a page is kept for revalidation.
const RETENTION: Duration = Duration::from_secs(900);

/// Identifies a request: the URL and the Accept header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CacheKey {
    pub(super) url: String,
    pub(super) accept: String,
}

#[derive(Default)]
pub(super) struct PageCache {
    /// The newest last.
    pages: Mutex<VecDeque<Arc<CachedPage>>>,
}

pub(super) struct CachedPage {
    key: CacheKey,
    pub(super) response: Response,
    fresh_until: Instant,
    kept_until: Instant,
}

impl CachedPage {
    /// Returns true while the page needs no revalidation.
    pub(super) fn is_fresh(&self) -> bool {
        Instant::now() < self.fresh_until
    }

    /// The headers of a revalidation request.
    pub(super) fn validators(&self) -> Vec<(&'static str, String)> {
        let pairs = [("if-none-match", "etag"), ("if-modified-since", "last-modified")];
        let validator = |(ask, known)| Some((ask, self.response.header(known)?.to_owned()));
        pairs.into_iter().filter_map(validator).collect()
    }
}

impl PageCache {
    pub(super) fn find(&self, key: &CacheKey) -> Option<Arc<CachedPage>> {
        let now = Instant::now();
        let mut pages = self.pages.lock();
        pages.retain(|page| page.kept_until > now);
        pages.iter().find(|page| page.key == *key).cloned()
    }

    /// Caches a response if the server allows it and it can be revalidated.
    pub(super) fn keep(&self, key: CacheKey, response: &Response) {
        let mut pages = self.pages.lock();
        pages.retain(|page| page.key != key);
        let control = response.header("cache-control").unwrap_or_default().to_ascii_lowercase();
        let fresh = freshness(&control);
        let has_validator = response.header("etag").or(response.header("last-modified")).is_some();
        let varies = response.header("vary").is_some_and(|vary| vary.contains('*'));
        let is_kept = response.status == 200 && !control.contains("no-store") && !varies;
        if !is_kept || (!has_validator && fresh.is_zero()) || response.body.len() > MAX_BYTES / 2 {
            return;
        }
        let now = Instant::now();
        let (fresh_until, kept_until) = (now + fresh, now + RETENTION);
        pages.push_back(Arc::new(CachedPage {
            key,
            response: response.clone(),
            fresh_until,
            kept_until,
        }));
        let mut bytes: usize = pages.iter().map(|page| page.response.body.len()).sum();
        while bytes > MAX_BYTES || pages.len() > MAX_PAGES {
            let Some(oldest) = pages.pop_front() else { break };
            bytes -= oldest.response.body.len();
        }
    }
}

fn freshness(control: &str) -> Duration {
    let mut words = control.split(',').map(str::trim);
    if words.clone().any(|word| word == "no-cache") {
        return Duration::ZERO;
    }
    let seconds =
        words.find_map(|word| word.strip_prefix("max-age=")?.trim_matches('"').parse().ok());
    Duration::from_secs(seconds.unwrap_or(0)).min(MAX_FRESHNESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(url: &str) -> CacheKey {
        CacheKey { url: url.to_owned(), accept: String::new() }
    }

    fn page(headers: &[(&str, &str)], size: usize) -> Response {
        let headers = headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        Response {
            status: 200,
            headers: headers.collect(),
            body: vec![0; size],
            ..Response::default()
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_page_is_fresh_as_long_as_it_says_then_asked_about_then_forgotten() {
        let cache = PageCache::default();
        cache.keep(
            key("a"),
            &page(&[("cache-control", "public, max-age=60"), ("etag", "\"1\"")], 1),
        );
        assert!(cache.find(&key("a")).is_some_and(|page| page.is_fresh()));
        assert!(cache.find(&CacheKey { accept: "x".to_owned(), ..key("a") }).is_none());
        tokio::time::advance(Duration::from_secs(61)).await;
        let stale = cache.find(&key("a")).expect("still there");
        assert!(!stale.is_fresh());
        assert_eq!(stale.validators(), [("if-none-match", "\"1\"".to_owned())]);
        tokio::time::advance(RETENTION).await;
        assert!(cache.find(&key("a")).is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn what_must_not_or_cannot_be_asked_about_is_not_kept() {
        let cache = PageCache::default();
        for headers in [
            &[("cache-control", "no-store"), ("etag", "x")][..],
            &[],
            &[("vary", "*"), ("etag", "x")],
        ] {
            cache.keep(key("a"), &page(headers, 1));
            assert!(cache.find(&key("a")).is_none(), "{headers:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn it_stays_small() {
        let cache = PageCache::default();
        for number in 0..40 {
            cache.keep(key(&number.to_string()), &page(&[("etag", "x")], 1 << 20));
        }
        let pages = cache.pages.lock();
        assert_eq!(pages.len(), 8);
        assert_eq!(pages.back().map(|page| page.key.url.clone()).as_deref(), Some("39"));
    }
}
