//! haft for model APIs. Today only `formats`: tools, calls and results in the format of each model
//! API, as pure functions.

#![warn(missing_docs)]

pub mod formats;
