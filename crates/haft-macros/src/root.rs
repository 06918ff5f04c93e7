//! The path of haft in the crate that uses `#[tool]`: its own name, another name, or the crate
//! itself.

use proc_macro_crate::{Error, FoundCrate, crate_name};
use proc_macro2::Span;
use quote::format_ident;
use syn::{Path, parse_quote};

/// Core first: the generated code refers to it, and a crate that depends on both must not rely on
/// the re-exports of the other.
const PACKAGES: [&str; 2] = ["haft-core", "haft"];

/// Finds the path of haft with the Cargo.toml of the crate being compiled.
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
                    "cannot find haft ({error}): set its path with `crate = some::path`"
                ));
            }
        }
    }
    Err("`#[tool]` needs haft: add `haft` to the dependencies in Cargo.toml, or set its path with \
         `crate = some::path`"
        .to_owned())
}

/// The crates of haft have `extern crate self as …`, so their own name also works inside them.
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
    fn a_missing_dependency_is_reported() {
        check(&[("half", FoundCrate::Itself)], "`#[tool]` needs haft: add `haft` to");
        let found = find_with(|_| Err(Error::CargoManifestDirNotSet));
        // Not `expect_err`: a path has `Debug` only with a feature of syn that haft does not enable.
        let Err(error) = found else { panic!("haft is found without a manifest") };
        assert!(error.contains("set its path with `crate = some::path`"), "{error}");
    }
}
