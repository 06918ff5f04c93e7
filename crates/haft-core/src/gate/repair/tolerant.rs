pub(crate) struct Parsed {
    pub(crate) value: serde_json::Value,
    pub(crate) repairs: Vec<String>,
}
pub(crate) struct Broken {
    pub(crate) message: String,
    pub(crate) line: usize,
    pub(crate) column: usize,
    pub(crate) cut_off: bool,
}
pub(crate) fn parse(text: &str) -> Result<Parsed, Broken> {
    serde_json::from_str(text).map(|value| Parsed { value, repairs: vec![] }).map_err(|e| Broken {
        message: e.to_string(),
        line: 1,
        column: 1,
        cut_off: false,
    })
}
