//! Files that are looked at rather than read: images and PDF documents, known by their first bytes, never by their names.

#[cfg(feature = "pdf")]
mod pdf;

use base64::{Engine, engine::general_purpose::STANDARD};
use haft_core::{Attachment, ErrorKind, ToolError, files::OpenFile};

/// As base64 this is what a call may carry at most.
const LARGEST: u64 = 15 << 20;

/// What sort of thing to look at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Media {
    Image(&'static str),
    Pdf,
}

/// Where the sniffer looks for `%PDF`.
const PDF_SIGN_WITHIN: usize = 2048;

impl Media {
    /// What the first bytes say.
    pub(crate) fn sniff(head: &[u8]) -> Option<Self> {
        // Nearly every file is a text: none of the five begins like one, and a PDF has its sign further down at most.
        let begins_like =
            head.first().is_some_and(|first| [0x89, 0xff, b'G', b'R'].contains(first));
        let may_be_pdf =
            memchr::memchr(b'%', head.get(..PDF_SIGN_WITHIN).unwrap_or(head)).is_some();
        if !begins_like && !may_be_pdf {
            return None;
        }
        let mime = infer::get(head)?.mime_type();
        match mime {
            // Three letters are enough for the sniffer, but a text may well begin with them.
            "image/gif" if !head.starts_with(b"GIF87a") && !head.starts_with(b"GIF89a") => None,
            "image/png" | "image/jpeg" | "image/gif" | "image/webp" => Some(Self::Image(mime)),
            "application/pdf" => Some(Self::Pdf),
            _ => None,
        }
    }

    pub(crate) fn mime(self) -> &'static str {
        match self {
            Self::Image(mime) => mime,
            Self::Pdf => "application/pdf",
        }
    }

    /// The file as it travels with a reply.
    pub(crate) fn attach(self, file: &dyn OpenFile, bytes: &[u8]) -> Attachment {
        let name = file.metadata().path.display().to_string();
        Attachment { mime: self.mime().to_owned(), name, data: STANDARD.encode(bytes) }
    }

    /// The bytes, if they are not too many.
    ///
    /// # Errors
    /// Of kind `too_large`.
    pub(crate) fn bytes(self, file: &dyn OpenFile) -> Result<Vec<u8>, ToolError> {
        let (path, size) = (file.metadata().path.display().to_string(), file.metadata().size);
        if size > LARGEST {
            let message =
                format!("`{path}` ({}) has {size} bytes, more than can be sent", self.mime());
            return Err(ToolError::new(ErrorKind::TooLarge, message).hint(format!(
                "make a copy below {LARGEST} bytes with a program, then read that"
            )));
        }
        file.read_whole()
    }
}

/// `640 x 480`, if it can be told.
pub(crate) fn dimensions(bytes: &[u8]) -> Option<String> {
    let size = imagesize::blob_size(bytes).ok()?;
    Some(format!("{} x {}", size.width, size.height))
}

/// What sort of content a file has, for people and programs.
pub(crate) fn mime(head: &[u8], is_text: bool) -> &'static str {
    if let Some(media) = Media::sniff(head) {
        return media.mime();
    }
    let known = infer::get(head).map(|known| known.mime_type());
    // Some formats are known by two letters, and so would be a text that begins with them.
    match (known, is_text) {
        (Some(known), true) if known.starts_with("text/") => known,
        (_, true) => "text/plain",
        (known, false) => known.unwrap_or("application/octet-stream"),
    }
}

/// The text of a PDF document, page by page; `None` when it has none or cannot be understood. `stop` ends it early.
pub(crate) fn pdf_text(bytes: &[u8], stop: &dyn Fn() -> bool) -> Option<String> {
    #[cfg(feature = "pdf")]
    return pdf::text(bytes, stop);
    #[cfg(not(feature = "pdf"))]
    return None.filter(|_: &String| !bytes.is_empty() && !stop());
}
