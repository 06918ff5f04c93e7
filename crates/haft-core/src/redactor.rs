//! stub
use std::borrow::Cow;
#[derive(Clone, Default)]
pub struct Redactor;
impl Redactor {
    pub fn new(_s: impl IntoIterator<Item = (String, String)>) -> Self {
        Self
    }
    pub fn text<'a>(&self, t: &'a str) -> Cow<'a, str> {
        Cow::Borrowed(t)
    }
    pub fn value(&self, _v: &mut serde_json::Value) {}
}
