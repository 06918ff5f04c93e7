//! Texts about requests that several surfaces of the command line use.

use haft_core::ApprovalRequest;
use jiff::{Span, Zoned};

use crate::safe_text::shown_in_line;

/// Parses when a rule expires, in milliseconds since 1970: empty or `never` for never, else a span
/// such as `1h` or `30d`.
pub(crate) fn lapse(time: &str, now: &Zoned) -> Option<Option<u64>> {
    if matches!(time, "" | "never") {
        return Some(None);
    }
    let span = time.parse::<Span>().ok().filter(|span| span.is_positive())?;
    let then = now.checked_add(span).ok()?.timestamp().as_millisecond();
    u64::try_from(then).ok().map(Some)
}

/// The request on one line.
pub(crate) fn summary(request: &ApprovalRequest) -> String {
    shown_in_line(&request.confirmation.message).into_owned()
}
