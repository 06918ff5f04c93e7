//! Shared code of `undo`, `redo` and `changes`: selecting changes in the journal, planning how to
//! revert them, carrying out the plan, and describing it.

pub(crate) mod carry_out;
pub(crate) mod contents;
pub(crate) mod display;
pub(crate) mod plan;
pub(crate) mod select;
pub(crate) mod undoing;
