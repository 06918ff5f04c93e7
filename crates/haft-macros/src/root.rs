//! Where haft is, seen from the crate that uses `#[tool]`: under its own name, renamed, or the crate itself.

use proc_macro_crate::{Error, FoundCrate, crate_name};
use proc_macro2::Span;
use quote::format_ident;
use syn::{Path, parse_quote};

/// Core first: it is the crate that the generated code is about, and a crate that has both must not depend on what the
/// other one passes on.
const PACKAGES: [&str; 2] = ["haft-core", "haft"];

/// The path of haft, from the Cargo.toml of the crate being compiled.
pub(crate) fn find() -> syn::Result<Path> {
    find_with(crate_name).map_err(|message| syn::Error::new(Span::call_site(), message))
}

fn find_with(look_up: impl Fn(&str) -> Result<FoundCrate, Error>) -> Result<Path, String> {
    for package in PACKAGES {
        match look_up(package) {
            Ok(found) => return Ok(path_of(package, found)),
            Err(Error::CrateNotFound { .. }) => {}
            Err(error) => {
                return Err(format!(
                    "haft cannot be looked up ({error}): say where it is with `crate = some::path`"
                ));
            }
        }
    }
    Err("`#[tool]` needs haft: add `haft` to the dependencies in Cargo.toml, or say where it is with \
         `crate = some::path`"
        .to_owned())
}

/// The crates of haft say `extern crate self as …`, so their own name holds inside them as well.
fn path_of(package: &str, found: FoundCrate) -> Path {
    let name = match found {
        FoundCrate::Itself => package.replace('-', "_"),
        FoundCrate::Name(name) => name,
    };
    let name = format_ident!("{name}");
    parse_quote!(::#name)
}

#[cfg(test)]
mod tests {
    use quote::ToTokens;

    use super::*;

    #[track_caller]
    fn check(known: &[(&str, FoundCrate)], expected: &str) {
        let look_up = |package: &str| {
            let found = known.iter().find(|(name, _)| *name == package);
            found.map(|(_, found)| found.clone()).ok_or_else(|| Error::CrateNotFound {
                crate_name: package.to_owned(),
                path: "Cargo.toml".into(),
            })
        };
        let shown = match find_with(look_up) {
            Ok(path) => path.to_token_stream().to_string().replace(' ', ""),
            Err(message) => message,
        };
        assert!(shown.starts_with(expected), "{shown}");
    }

    #[test]
    fn haft_is_found_under_every_name() {
        let named = |name: &str| FoundCrate::Name(name.to_owned());
        check(&[("haft-core", FoundCrate::Itself)], "::haft_core");
        check(&[("haft", FoundCrate::Itself)], "::haft");
        check(&[("haft", named("haft"))], "::haft");
        check(&[("haft", named("handle"))], "::handle");
        check(
            &[("haft", FoundCrate::Itself), ("haft-core", named("core_of_haft"))],
            "::core_of_haft",
        );
    }

    #[test]
    fn who_does_not_depend_on_haft_is_told_to() {
        check(&[("half", FoundCrate::Itself)], "`#[tool]` needs haft: add `haft` to");
        let error = find_with(|_| Err(Error::CargoManifestDirNotSet)).expect_err("not found");
        assert!(error.contains("say where it is with `crate = some::path`"), "{error}");
    }
}
