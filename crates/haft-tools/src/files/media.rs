//! Images and PDF documents. They are recognised by their first bytes, never by their names.
#[cfg(feature = "pdf")]
mod pdf;

use base64::{Engine, engine::general_purpose::STANDARD};
use haft_core::{Attachment, ErrorKind, ToolError, files::OpenFile};

/// Maximum file size, so that its base64 form fits into a call's result.
const MAX_MEDIA_BYTES: u64 = 15 << 20;

/// A recognised kind of media.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Media {
    Image(&'static str),
    Pdf,
}

/// `infer` looks for `%PDF` within this distance of the start.
const PDF_MAGIC_RANGE: usize = 2048;

impl Media {
    /// Recognises media by the first bytes of a file.
    pub(crate) fn sniff(head: &[u8]) -> Option<Self> {
        // Nearly every file is text, and none of the image formats begins like text. Check the
        // first byte, and for a PDF its `%`, before the slower check.
        let begins_like =
            head.first().is_some_and(|first| [0x89, 0xff, b'G', b'R'].contains(first));
        let may_be_pdf =
            memchr::memchr(b'%', head.get(..PDF_MAGIC_RANGE).unwrap_or(head)).is_some();
        if !begins_like && !may_be_pdf {
            return None;
        }
        let mime = infer::get(head)?.mime_type();
        match mime {
            // `infer` accepts three letters, but a text may begin with them.
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

    /// Encodes the file as an attachment.
    pub(crate) fn attach(self, file: &dyn OpenFile, bytes: &[u8]) -> Attachment {
        let name = file.metadata().path.display().to_string();
        Attachment { mime: self.mime().to_owned(), name, data: STANDARD.encode(bytes) }
    }

    /// Reads the file if it is not too large.
    ///
    /// # Errors
    /// `too_large`.
    pub(crate) fn bytes(self, file: &dyn OpenFile) -> Result<Vec<u8>, ToolError> {
        let (path, size) = (file.metadata().path.display().to_string(), file.metadata().size);
        if size > MAX_MEDIA_BYTES {
            let message =
                format!("`{path}` ({}) has {size} bytes, too large to attach", self.mime());
            return Err(ToolError::new(ErrorKind::TooLarge, message).hint(format!(
                "create a copy below {MAX_MEDIA_BYTES} bytes with a program, then read the copy"
            )));
        }
        file.read_whole()
    }
}

/// Returns the image size as `640 x 480`, if known.
pub(crate) fn dimensions(bytes: &[u8]) -> Option<String> {
    let size = imagesize::blob_size(bytes).ok()?;
    Some(format!("{} x {}", size.width, size.height))
}

/// Returns the media type of a file.
pub(crate) fn mime(head: &[u8], is_text: bool) -> &'static str {
    if let Some(media) = Media::sniff(head) {
        return media.mime();
    }
    let known = infer::get(head).map(|known| known.mime_type());
    // `infer` knows some formats by two letters, which a text may begin with.
    match (known, is_text) {
        (Some(known), true) if known.starts_with("text/") => known,
        (_, true) => "text/plain",
        (known, false) => known.unwrap_or("application/octet-stream"),
    }
}

/// Returns the text of a PDF document page by page, or `None` when it has no readable text. `stop`
/// ends the work early.
pub(crate) fn pdf_text(bytes: &[u8], stop: &dyn Fn() -> bool) -> Option<String> {
    #[cfg(feature = "pdf")]
    return pdf::text(bytes, stop);
    #[cfg(not(feature = "pdf"))]
    return None.filter(|_: &String| !bytes.is_empty() && !stop());
}
