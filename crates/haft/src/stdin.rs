//! Reads standard input as text, up to the maximum size of a call's input.

use std::io::{self, IsTerminal, Read};

use haft_core::{ErrorKind, ToolError};

/// Returns true when standard input is not a terminal.
pub(crate) fn is_piped() -> bool {
    !io::stdin().is_terminal()
}

/// Reads all of standard input.
///
/// # Errors
/// When it is longer than `max_bytes` or not UTF-8. At max_bytes one byte more than allowed is
/// read.
pub(crate) fn read_text(max_bytes: usize) -> Result<String, ToolError> {
    read(io::stdin().lock(), max_bytes)
}

fn read(from: impl Read, max_bytes: usize) -> Result<String, ToolError> {
    let mut bytes = Vec::new();
    from.take((max_bytes as u64).saturating_add(1)).read_to_end(&mut bytes).map_err(|error| {
        ToolError::input(format!("cannot read standard input: {error}")).caused_by(error)
    })?;
    if bytes.len() > max_bytes {
        let message = format!("standard input is larger than the limit of {max_bytes} bytes");
        return Err(ToolError::new(ErrorKind::TooLarge, message)
            .hint("write large content to a file and pass the file's path"));
    }
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        ToolError::input(format!("standard input is not UTF-8: byte {at} is invalid"))
            .hint("convert it first, for example with iconv")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reading_stops_at_the_limit_of_a_call() {
        assert_eq!(read(&b"four"[..], 4).expect("short enough"), "four");
        let mut endless = io::repeat(b'x');
        let error = read(&mut endless, 4).expect_err("too long");
        assert_eq!(error.kind(), ErrorKind::TooLarge);
        let error = read(&b"a\xff"[..], 4).expect_err("not text");
        assert!(error.message().contains("byte 1"), "{error}");
    }
}
