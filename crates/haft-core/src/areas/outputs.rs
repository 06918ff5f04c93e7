//! Stores the full text of truncated outputs, to be read again by id, and the capability to read
//! them.
//!
//! An id cannot be guessed (74 random bits) and is not listed anywhere: a client that has one was
//! shown the output, or got the id from a client that was. So an id opens its output to every
//! session of the same workspace, for people and agents alike.

use std::{collections::VecDeque, sync::Arc};

use parking_lot::{Mutex, MutexGuard};

use crate::{BoxFuture, Call, Capability, Need, Power, ToolError, clock::now_ms};

/// A store of texts by id. The texts are already redacted.
pub trait Outputs: Send + Sync {
    /// Stores a text and returns its id.
    fn keep(
        &self,
        text: String,
        made_by: OutputSource,
    ) -> BoxFuture<'_, Result<StoredOutput, ToolError>>;

    /// Returns information about an output without reading it.
    ///
    /// # Errors
    /// Of kind `not_found` if nothing is stored under this id, or no longer.
    fn find<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<OutputInfo, ToolError>>;

    /// Returns the piece that contains a position. Pieces follow each other without gaps; the store
    /// chooses their length.
    fn piece<'a>(
        &'a self,
        id: &'a str,
        at: OutputPosition,
    ) -> BoxFuture<'a, Result<OutputPiece, ToolError>>;

    /// Returns the full text of an output.
    fn read<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<Arc<str>, ToolError>> {
        Box::pin(async move {
            let kept = self.find(id).await?;
            let mut text = String::with_capacity(usize::try_from(kept.bytes).unwrap_or_default());
            while (text.len() as u64) < kept.bytes {
                let piece = self.piece(id, OutputPosition::Byte(text.len() as u64)).await?;
                if piece.text.is_empty() {
                    return Err(ended_early(id));
                }
                text.push_str(&piece.text);
            }
            Ok(text.into())
        })
    }
}

/// The call that an output belongs to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OutputSource {
    /// The session.
    pub session: String,
    /// The call.
    pub call_id: String,
    /// The tool.
    pub tool: String,
}

/// The result of storing a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredOutput {
    /// The id of the output.
    pub id: String,
    /// A note for the caller: that the text is stored for a shorter time than usual, and why.
    pub note: Option<String>,
}

/// Information about an output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutputInfo {
    /// Length in bytes.
    pub bytes: u64,
    /// Number of lines, without an empty one after the last line break.
    pub lines: u64,
    /// The call that produced it.
    pub made_by: OutputSource,
    /// Storage time, in milliseconds since 1970.
    pub kept_ms: u64,
}

/// A position in an output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutputPosition {
    /// Counted from 0. The returned piece contains this byte, or is empty at the end.
    Byte(u64),
    /// Counted from 1. The line begins in the returned piece, or in the one after it.
    Line(u64),
}

/// A part of an output, with whole characters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutputPiece {
    /// Position of its first byte.
    pub first_byte: u64,
    /// The line that contains its first byte, counted from 1.
    pub first_line: u64,
    /// The text.
    pub text: Arc<str>,
}

impl OutputPiece {
    /// Position of the next piece.
    pub fn end(&self) -> u64 {
        self.first_byte + self.text.len() as u64
    }
}

/// Number of lines in a text, without an empty one after the last line break.
pub fn count_lines(text: &str) -> u64 {
    let breaks = memchr::memchr_iter(b'\n', text.as_bytes()).count() as u64;
    breaks + u64::from(!text.is_empty() && !text.ends_with('\n'))
}

/// The error for an unknown output. For implementations of [`Outputs`].
pub fn no_such_output(id: &str) -> ToolError {
    ToolError::not_found(format!("unknown output `{id}`")).hint(
        "check the id; if the output was deleted to free space, repeat the call that returned it",
    )
}

fn ended_early(id: &str) -> ToolError {
    ToolError::unavailable(format!("a piece of the output `{id}` is missing"))
        .hint("repeat the call that returned it")
}

/// Texts in memory up to a quota; the oldest are dropped first.
pub struct MemoryOutputs {
    kept: Mutex<StoredTexts>,
    quota: usize,
}

#[derive(Default)]
struct StoredTexts {
    texts: VecDeque<(String, OutputInfo, Arc<str>)>,
    bytes: usize,
}

impl Default for MemoryOutputs {
    fn default() -> Self {
        Self::with_quota(64 << 20)
    }
}

impl MemoryOutputs {
    /// Creates a store with a maximum size in bytes.
    pub fn with_quota(quota: usize) -> Self {
        Self { kept: Mutex::default(), quota }
    }

    fn stored(&self) -> MutexGuard<'_, StoredTexts> {
        self.kept.lock()
    }

    fn put(&self, text: String, made_by: OutputSource) -> Result<StoredOutput, ToolError> {
        if text.len() > self.quota {
            let (length, quota) = (text.len(), self.quota);
            let message = format!(
                "an output of {length} bytes exceeds the {quota} bytes of memory for outputs"
            );
            return Err(ToolError::unavailable(message).hint("request less at once"));
        }
        let id = new_output_id();
        let (bytes, lines) = (text.len() as u64, count_lines(&text));
        let about = OutputInfo { bytes, lines, made_by, kept_ms: now_ms() };
        let mut kept = self.stored();
        kept.bytes += text.len();
        kept.texts.push_back((id.clone(), about, text.into()));
        while kept.bytes > self.quota {
            let Some((_, _, oldest)) = kept.texts.pop_front() else { break };
            kept.bytes -= oldest.len();
        }
        Ok(StoredOutput { id, note: None })
    }

    fn get(&self, id: &str) -> Result<(OutputInfo, Arc<str>), ToolError> {
        let kept = self.stored();
        let found = kept.texts.iter().find(|(known, _, _)| known == id);
        let found = found.map(|(_, about, text)| (about.clone(), text.clone()));
        found.ok_or_else(|| no_such_output(id))
    }
}

/// Creates an output id, for implementations of [`Outputs`]: ordered by time, and not guessable.
pub fn new_output_id() -> String {
    crate::ids::new_id("out")
}

impl Outputs for MemoryOutputs {
    fn keep(
        &self,
        text: String,
        made_by: OutputSource,
    ) -> BoxFuture<'_, Result<StoredOutput, ToolError>> {
        Box::pin(std::future::ready(self.put(text, made_by)))
    }

    fn find<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<OutputInfo, ToolError>> {
        Box::pin(std::future::ready(self.get(id).map(|(about, _)| about)))
    }

    fn piece<'a>(
        &'a self,
        id: &'a str,
        at: OutputPosition,
    ) -> BoxFuture<'a, Result<OutputPiece, ToolError>> {
        let piece = self.get(id).map(|(about, text)| match at {
            // There is only one piece, and this position is behind it.
            OutputPosition::Byte(byte) if byte >= about.bytes && byte > 0 => {
                OutputPiece { first_byte: about.bytes, first_line: about.lines, text: "".into() }
            }
            _ => OutputPiece { first_byte: 0, first_line: 1, text },
        });
        Box::pin(std::future::ready(piece))
    }

    fn read<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<Arc<str>, ToolError>> {
        Box::pin(std::future::ready(self.get(id).map(|(_, text)| text)))
    }
}

/// The capability to read what earlier calls returned.
#[derive(Clone)]
pub struct ReadOutputs(Arc<dyn Outputs>);

impl ReadOutputs {
    /// The outputs of a store, for calling a tool's function directly.
    pub fn unchecked(outputs: Arc<dyn Outputs>) -> Self {
        Self(outputs)
    }

    /// As [`Outputs::find`].
    ///
    /// # Errors
    /// Of kind `not_found` if nothing is stored under this id.
    pub async fn find(&self, id: &str) -> Result<OutputInfo, ToolError> {
        self.0.find(id).await
    }

    /// As [`Outputs::piece`].
    ///
    /// # Errors
    /// Of kind `not_found` if nothing is stored under this id.
    pub async fn piece(&self, id: &str, at: OutputPosition) -> Result<OutputPiece, ToolError> {
        self.0.piece(id, at).await
    }
}

#[diagnostic::do_not_recommend]
impl Capability for ReadOutputs {
    const NEED: Need = Need::required(Power::ReadStore);

    fn from_call(call: &Call) -> Result<Self, ToolError> {
        call.service::<dyn Outputs>().map(Self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn keep(outputs: &MemoryOutputs, text: &str) -> Result<String, ToolError> {
        outputs.keep(text.into(), OutputSource::default()).await.map(|receipt| receipt.id)
    }

    #[tokio::test]
    async fn the_oldest_are_dropped_at_the_quota() {
        let outputs = MemoryOutputs::with_quota(10);
        let first = keep(&outputs, "aaaaaa").await.expect("kept");
        let second = keep(&outputs, "bbbbbb").await.expect("kept");
        assert!(outputs.read(&first).await.is_err());
        assert_eq!(&*outputs.read(&second).await.expect("kept"), "bbbbbb");
        assert!(keep(&outputs, &"c".repeat(11)).await.is_err());
    }

    #[tokio::test]
    async fn a_text_in_memory_is_one_piece_and_nothing_after_it() {
        let outputs = MemoryOutputs::default();
        let id = keep(&outputs, "a\nb").await.expect("kept");
        for at in [OutputPosition::Byte(0), OutputPosition::Byte(2), OutputPosition::Line(9)] {
            let piece = outputs.piece(&id, at).await.expect("kept");
            assert_eq!((piece.first_byte, piece.first_line, &*piece.text), (0, 1, "a\nb"));
        }
        let end = outputs.piece(&id, OutputPosition::Byte(3)).await.expect("kept");
        assert_eq!((end.first_byte, &*end.text, end.end()), (3, "", 3));
        assert_eq!(outputs.find(&id).await.expect("kept").lines, 2);
    }

    #[test]
    fn lines_are_counted_as_people_do() {
        for (text, lines) in [("", 0), ("a", 1), ("a\n", 1), ("a\nb", 2), ("\n\n", 2)] {
            assert_eq!(count_lines(text), lines, "{text:?}");
        }
    }
}
