//! Reads a span of bytes of a kept output. The store returns the output in pieces.
use haft_core::{OutputPiece, OutputPosition, ReadOutputs, ToolError};

/// A part of an output.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) first_byte: u64,
    /// The line that contains the first byte.
    pub(super) first_line: u64,
    pub(super) text: String,
}

/// Reads the text of a byte range. Both ends are moved back to a character boundary if necessary.
pub(super) async fn span(
    outputs: &ReadOutputs,
    id: &str,
    from: u64,
    to: u64,
) -> Result<Span, ToolError> {
    let piece = outputs.piece(id, OutputPosition::Byte(from)).await?;
    let mut span = Span::from(&piece, from);
    let mut end = piece.end();
    while end < to {
        let piece = outputs.piece(id, OutputPosition::Byte(end)).await?;
        if piece.text.is_empty() {
            break;
        }
        span.text.push_str(&piece.text);
        end = piece.end();
    }
    let length = usize::try_from(to.saturating_sub(span.first_byte)).unwrap_or(usize::MAX);
    span.text.truncate(span.text.floor_char_boundary(length.min(span.text.len())));
    Ok(span)
}

impl Span {
    fn from(piece: &OutputPiece, from: u64) -> Self {
        let skip = usize::try_from(from.saturating_sub(piece.first_byte)).unwrap_or(usize::MAX);
        let skip = piece.text.floor_char_boundary(skip.min(piece.text.len()));
        let (before, text) = piece.text.split_at(skip);
        Self {
            first_byte: piece.first_byte + skip as u64,
            first_line: piece.first_line + count_line_breaks(before),
            text: text.to_owned(),
        }
    }
}

pub(super) fn count_line_breaks(text: &str) -> u64 {
    memchr::memchr_iter(b'\n', text.as_bytes()).count() as u64
}
