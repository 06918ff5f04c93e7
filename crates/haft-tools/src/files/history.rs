//! What `undo`, `redo` and `changes` share: finding changes in the journal, working out what taking them back means, doing
//! it, and the words for it.

pub(crate) mod carry_out;
pub(crate) mod contents;
pub(crate) mod plan;
pub(crate) mod select;
pub(crate) mod undoing;
pub(crate) mod words;
