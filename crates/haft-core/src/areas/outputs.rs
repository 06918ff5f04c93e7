//! Where the whole of a cut output is kept, to be read again by its id, and the power to read it.
//!
//! An id is not to be guessed (74 random bits), and nothing lists them: whoever has one was shown the output, or was told of
//! it by somebody who was. So an id opens its output to every session of the same workspace, for people and agents alike.

use std::{collections::VecDeque, sync::Arc};

use parking_lot::{Mutex, MutexGuard};

use crate::{BoxFuture, Call, Capability, Need, Power, ToolError, clock::now_ms};

/// Keeps texts by id. What is given to it has no secrets in it any more.
pub trait Outputs: Send + Sync {
    /// Keeps a text and names it.
    fn keep(
        &self,
        text: String,
        made_by: OutputSource,
    ) -> BoxFuture<'_, Result<StoredOutput, ToolError>>;

    /// What is known of an output without reading it.
    ///
    /// # Errors
    /// Of kind `not_found` when nothing is kept under this id, or no longer.
    fn find<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<OutputInfo, ToolError>>;

    /// The piece that a position lies in. Pieces follow each other without a gap; how long they are is the keeper's affair.
    fn piece<'a>(
        &'a self,
        id: &'a str,
        at: OutputPosition,
    ) -> BoxFuture<'a, Result<OutputPiece, ToolError>>;

    /// The whole text of an id.
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

/// Which call an output is of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OutputSource {
    /// The session.
    pub session: String,
    /// The call.
    pub call_id: String,
    /// The tool.
    pub tool: String,
}

/// What became of a text that was to be kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredOutput {
    /// The name it can be read by.
    pub id: String,
    /// What the caller should be told: that it is kept for less long than usual, and why.
    pub note: Option<String>,
}

/// What is known of an output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutputInfo {
    /// How long it is.
    pub bytes: u64,
    /// How many lines it has; an empty one after the last line break counts not.
    pub lines: u64,
    /// Whose it is.
    pub made_by: OutputSource,
    /// When it was kept, in milliseconds since 1970.
    pub kept_ms: u64,
}

/// A place in an output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutputPosition {
    /// Counted from 0. The piece found contains this byte, or is empty at the end.
    Byte(u64),
    /// Counted from 1. The line begins in the piece found, or in the one after it.
    Line(u64),
}

/// A part of an output, whole characters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutputPiece {
    /// Where it begins.
    pub first_byte: u64,
    /// The line that its beginning belongs to, counted from 1.
    pub first_line: u64,
    /// The text.
    pub text: Arc<str>,
}

impl OutputPiece {
    /// Where the next piece begins.
    pub fn end(&self) -> u64 {
        self.first_byte + self.text.len() as u64
    }
}

/// The lines of a text: an empty one after the last line break counts not.
pub fn count_lines(text: &str) -> u64 {
    let breaks = memchr::memchr_iter(b'\n', text.as_bytes()).count() as u64;
    breaks + u64::from(!text.is_empty() && !text.ends_with('\n'))
}

/// Nothing is kept under this id. For those who implement [`Outputs`].
pub fn no_such_output(id: &str) -> ToolError {
    ToolError::not_found(format!("no output is kept under `{id}`")).hint(
        "check the id; old outputs give way to newer ones, then make the call again that it is of",
    )
}

fn ended_early(id: &str) -> ToolError {
    ToolError::unavailable(format!("a piece of the output `{id}` is missing"))
        .hint("make the call again that it is of")
}

/// Texts in memory up to a quota; the oldest give way.
pub struct MemoryOutputs {
    kept: Mutex<Kept>,
    quota: usize,
}

#[derive(Default)]
struct Kept {
    texts: VecDeque<(String, OutputInfo, Arc<str>)>,
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

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock()
    }

    fn put(&self, text: String, made_by: OutputSource) -> Result<StoredOutput, ToolError> {
        if text.len() > self.quota {
            let (length, quota) = (text.len(), self.quota);
            let message = format!(
                "an output of {length} bytes is more than the {quota} that are kept in memory"
            );
            return Err(ToolError::unavailable(message).hint("ask for less at once"));
        }
        let id = new_output_id();
        let (bytes, lines) = (text.len() as u64, count_lines(&text));
        let about = OutputInfo { bytes, lines, made_by, kept_ms: now_ms() };
        let mut kept = self.kept();
        kept.bytes += text.len();
        kept.texts.push_back((id.clone(), about, text.into()));
        while kept.bytes > self.quota {
            let Some((_, _, oldest)) = kept.texts.pop_front() else { break };
            kept.bytes -= oldest.len();
        }
        Ok(StoredOutput { id, note: None })
    }

    fn get(&self, id: &str) -> Result<(OutputInfo, Arc<str>), ToolError> {
        let kept = self.kept();
        let found = kept.texts.iter().find(|(known, _, _)| known == id);
        let found = found.map(|(_, about, text)| (about.clone(), text.clone()));
        found.ok_or_else(|| no_such_output(id))
    }
}

/// A name for an output, for those who implement [`Outputs`]: ordered by time, and not to be guessed.
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
            // It is one piece, and this is behind it.
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

/// The power to read what earlier calls returned.
#[derive(Clone)]
pub struct ReadOutputs(Arc<dyn Outputs>);

impl ReadOutputs {
    /// Those of a keeper; for calling a tool's function directly.
    pub fn unchecked(outputs: Arc<dyn Outputs>) -> Self {
        Self(outputs)
    }

    /// As [`Outputs::find`].
    ///
    /// # Errors
    /// Of kind `not_found` when nothing is kept under this id.
    pub async fn find(&self, id: &str) -> Result<OutputInfo, ToolError> {
        self.0.find(id).await
    }

    /// As [`Outputs::piece`].
    ///
    /// # Errors
    /// Of kind `not_found` when nothing is kept under this id.
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
    async fn the_oldest_give_way_at_the_quota() {
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
