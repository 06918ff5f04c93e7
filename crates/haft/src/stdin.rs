//! Standard input as one text, never more of it than a call may hold.

use std::io::{self, IsTerminal, Read};

use haft_core::{ErrorKind, ToolError};

/// Whether something else than a person stands behind it.
pub(crate) fn is_piped() -> bool {
    !io::stdin().is_terminal()
}

/// All of it.
///
/// # Errors
/// When it is longer than `most` bytes, of which no more than one is read too many, or is not UTF-8.
pub(crate) fn read_text(most: usize) -> Result<String, ToolError> {
    read(io::stdin().lock(), most)
}

fn read(from: impl Read, most: usize) -> Result<String, ToolError> {
    let mut bytes = Vec::new();
    from.take((most as u64).saturating_add(1)).read_to_end(&mut bytes).map_err(|error| {
        ToolError::input(format!("standard input cannot be read: {error}")).caused_by(error)
    })?;
    if bytes.len() > most {
        let message = format!("standard input is longer than the {most} bytes a call may hold");
        return Err(ToolError::new(ErrorKind::TooLarge, message)
            .hint("put large content into a file and name the file"));
    }
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        ToolError::input(format!("standard input is not UTF-8: byte {at} begins no character"))
            .hint("convert it first, for example with iconv")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_is_read_than_a_call_may_hold() {
        assert_eq!(read(&b"four"[..], 4).expect("short enough"), "four");
        let mut endless = io::repeat(b'x');
        let error = read(&mut endless, 4).expect_err("too long");
        assert_eq!(error.kind(), ErrorKind::TooLarge);
        let error = read(&b"a\xff"[..], 4).expect_err("not text");
        assert!(error.message().contains("byte 1"), "{error}");
    }
}
