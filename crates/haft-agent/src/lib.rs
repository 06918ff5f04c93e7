//! haft for models. Today `formats`: what each model API calls a tool, a call and a result, as pure functions.

#![warn(missing_docs)]

pub mod formats;
