//! `$'…'`: the only quotes with character escapes.

use super::parse::ParseProblem;

/// Returns the text up to the closing quote, and the number of bytes read including the quote.
pub(super) fn decode(rest: &str) -> Result<(String, usize), ParseProblem> {
    let mut text = String::new();
    let mut characters = rest.char_indices().peekable();
    while let Some((index, c)) = characters.next() {
        match c {
            '\'' => return Ok((text, index + 1)),
            '\\' => {
                let (_, kind) = characters.next().ok_or("a quote is not closed")?;
                let mut digits = |max: usize, radix: u32| {
                    let mut value = None;
                    for _ in 0..max {
                        let digit = characters.peek().and_then(|(_, c)| c.to_digit(radix));
                        let Some(digit) = digit else { break };
                        value = Some(value.unwrap_or(0) * radix + digit);
                        characters.next();
                    }
                    value
                };
                let decoded = match kind {
                    'n' => '\n',
                    't' => '\t',
                    '\\' | '\'' | '"' | '?' => kind,
                    'x' => byte(digits(2, 16))?,
                    'u' => character(digits(4, 16))?,
                    'U' => character(digits(8, 16))?,
                    '0'..='7' => {
                        let first = kind.to_digit(8).unwrap_or(0);
                        let rest = digits(1, 8).map(|digit| first * 8 + digit);
                        let rest = match (rest, digits(1, 8)) {
                            (Some(two), Some(digit)) => two * 8 + digit,
                            (Some(two), None) => two,
                            (None, _) => first,
                        };
                        byte(Some(rest))?
                    }
                    _ => return Err("unsupported escape sequence"),
                };
                text.push(decoded);
            }
            _ => text.push(c),
        }
    }
    Err("a quote is not closed")
}

/// Bytes beyond ASCII may be parts of characters, and a zero ends the text.
fn byte(value: Option<u32>) -> Result<char, ParseProblem> {
    match value {
        Some(value @ 1..=0x7f) => character(Some(value)),
        _ => Err("unsupported escape sequence"),
    }
}

fn character(value: Option<u32>) -> Result<char, ParseProblem> {
    let found = value.filter(|value| *value > 0).and_then(char::from_u32);
    found.ok_or("unsupported escape sequence")
}
