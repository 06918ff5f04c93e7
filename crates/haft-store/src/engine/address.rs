//! The address of a store as users write it.

use std::{
    fmt,
    path::{Path, PathBuf},
};

use haft_core::ToolError;

/// A file of SQLite, or a database of PostgreSQL.
#[derive(Clone, PartialEq, Eq)]
pub enum StoreAddress {
    /// A file.
    Sqlite(PathBuf),
    /// A URL.
    Postgres(String),
}

impl StoreAddress {
    /// Reads `sqlite:PATH`, a plain path, or `postgres://…`. A relative path begins at `base`.
    ///
    /// # Errors
    /// `input` when it is none of these.
    pub fn parse(text: &str, base: &Path) -> Result<Self, ToolError> {
        if text.starts_with("postgres://") || text.starts_with("postgresql://") {
            return Ok(Self::Postgres(text.to_owned()));
        }
        let path = match text.strip_prefix("sqlite:") {
            Some(path) => path.strip_prefix("//").unwrap_or(path),
            None => text,
        };
        // `mysql://…` is a mistake, not a path.
        let is_foreign = text.split_once("://").is_some_and(|(scheme, _)| scheme != "sqlite");
        if is_foreign || path.is_empty() || path.contains('\0') || path.ends_with('/') {
            let shown = without_password(text);
            return Err(ToolError::input(format!("`{shown}` is not a store address"))
                .hint("write sqlite:PATH, a file path, or postgres://USER@HOST/DATABASE"));
        }
        Ok(Self::Sqlite(base.join(path)))
    }
}

impl fmt::Display for StoreAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sqlite(path) => write!(f, "{}", path.display()),
            Self::Postgres(url) => f.write_str(&without_password(url)),
        }
    }
}

impl fmt::Debug for StoreAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// Removes the password from a URL, so that it can be shown.
fn without_password(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return url.to_owned() };
    // The query string may hold a password too.
    let rest = rest.split('?').next().unwrap_or_default();
    let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
    let shown = match authority.rsplit_once('@') {
        Some((who, host)) => format!("{}@{host}", who.split(':').next().unwrap_or_default()),
        None => authority.to_owned(),
    };
    format!("{scheme}://{shown}/{path}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, shown: Option<&str>) {
        let read = StoreAddress::parse(text, Path::new("/base"));
        assert_eq!(read.ok().map(|address| address.to_string()).as_deref(), shown, "{text}");
    }

    #[test]
    fn files_and_databases_are_distinguished() {
        check("a.db", Some("/base/a.db"));
        check("sqlite:a.db", Some("/base/a.db"));
        check("sqlite:/x/a.db", Some("/x/a.db"));
        check("sqlite:///x/a.db", Some("/x/a.db"));
        check("/x/a.db", Some("/x/a.db"));
        check("postgres://ada@host/db", Some("postgres://ada@host/db"));
        for wrong in ["", "sqlite:", "mysql://host/db", "dir/", "http://x/y", "a\0b"] {
            check(wrong, None);
        }
    }

    #[test]
    fn passwords_are_not_shown() {
        check("postgresql://ada:s3cret@host:1/db", Some("postgresql://ada@host:1/db"));
        check("postgres://host/db?password=s3cret", Some("postgres://host/db"));
        let wrong = StoreAddress::parse("mysql://ada:s3cret@host/db", Path::new("/"));
        assert!(!wrong.expect_err("foreign").to_string().contains("s3cret"));
    }
}
