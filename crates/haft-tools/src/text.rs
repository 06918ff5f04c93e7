//! Pure work on texts that several tools share: finding and replacing, line patches, patch files, differences. Nothing
//! here opens a file.

pub(crate) mod diff;
pub(crate) mod encoding;
pub(crate) mod line_patches;
pub(crate) mod patch;
pub(crate) mod replace;
pub(crate) mod terminal;
pub(crate) mod window;
