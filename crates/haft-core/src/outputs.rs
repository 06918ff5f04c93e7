//! Where the whole of a cut output is kept, to be read again by its id.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, PoisonError},
};

use crate::{BoxFuture, ToolError};

/// Keeps texts by id.
pub trait Outputs: Send + Sync {
    /// Keeps a text and names it.
    fn keep(&self, text: String) -> BoxFuture<'_, Result<String, ToolError>>;

    /// The text of an id.
    fn read<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<Arc<str>, ToolError>>;
}

/// Texts in memory up to a quota; the oldest give way.
pub struct MemoryOutputs {
    kept: Mutex<Kept>,
    quota: usize,
}

#[derive(Default)]
struct Kept {
    texts: VecDeque<(String, Arc<str>)>,
    bytes: usize,
}

impl Default for MemoryOutputs {
    fn default() -> Self {
        Self::with_quota(64 << 20)
    }
}

impl MemoryOutputs {
    /// Keeps at most so many bytes.
    pub fn with_quota(quota: usize) -> Self {
        Self { kept: Mutex::default(), quota }
    }
}

impl Outputs for MemoryOutputs {
    fn keep(&self, text: String) -> BoxFuture<'_, Result<String, ToolError>> {
        if text.len() > self.quota {
            let message = format!(
                "an output of {} bytes is more than the {} that are kept in memory",
                text.len(),
                self.quota
            );
            return Box::pin(std::future::ready(Err(ToolError::unavailable(message))));
        }
        let id = crate::ids::new_id("out");
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.bytes += text.len();
        kept.texts.push_back((id.clone(), text.into()));
        while kept.bytes > self.quota {
            let Some((_, oldest)) = kept.texts.pop_front() else { break };
            kept.bytes -= oldest.len();
        }
        Box::pin(std::future::ready(Ok(id)))
    }

    fn read<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<Arc<str>, ToolError>> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let found = kept.texts.iter().find(|(known, _)| known == id).map(|(_, text)| text.clone());
        let found = found.ok_or_else(|| {
            ToolError::not_found(format!("no output is kept under `{id}`"))
                .hint("outputs in memory give way to newer ones; make the call again")
        });
        Box::pin(std::future::ready(found))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_oldest_give_way_at_the_quota() {
        let outputs = MemoryOutputs::with_quota(10);
        let first = outputs.keep("aaaaaa".into()).await.expect("kept");
        let second = outputs.keep("bbbbbb".into()).await.expect("kept");
        assert!(outputs.read(&first).await.is_err());
        assert_eq!(&*outputs.read(&second).await.expect("kept"), "bbbbbb");
        assert!(outputs.keep("c".repeat(11)).await.is_err());
    }
}
