//! TLS configuration: trusts the authorities that browsers trust, and those that a person has
//! added.

use std::{path::PathBuf, sync::Arc};

use haft_core::ToolError;
use tokio_rustls::rustls::{
    ClientConfig, RootCertStore,
    crypto::ring,
    pki_types::{CertificateDer, pem::PemObject},
};

/// A certificate file is small; the limit is for files named by mistake.
const MAX_FILE_BYTES: u64 = 4 << 20;

/// Built at the first https request: it takes a megabyte and some milliseconds.
pub(super) fn config(authorities: &[PathBuf]) -> Result<Arc<ClientConfig>, ToolError> {
    let mut roots = RootCertStore::empty();
    roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
    for path in authorities {
        add(&mut roots, path)?;
    }
    let provider = ring::default_provider();
    // Other users of TLS in this process get the same provider; an earlier one is fine.
    let _ = provider.clone().install_default();
    let config = ClientConfig::builder_with_provider(Arc::new(provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| ToolError::internal(format!("TLS cannot be set up: {error}")))?;
    Ok(Arc::new(config.with_root_certificates(roots).with_no_client_auth()))
}

fn add(roots: &mut RootCertStore, path: &PathBuf) -> Result<(), ToolError> {
    let refuse = |problem: String| {
        let path = path.display();
        ToolError::unavailable(format!("the certificates in {path} cannot be used: {problem}"))
            .hint("fix the file, or `ca` under [network] in your own config; it must be PEM")
    };
    let size = std::fs::metadata(path).map_err(|error| refuse(error.to_string()))?.len();
    if size > MAX_FILE_BYTES {
        return Err(refuse(format!("it is larger than {MAX_FILE_BYTES} bytes")));
    }
    let bytes = std::fs::read(path).map_err(|error| refuse(error.to_string()))?;
    let mut count = 0;
    for certificate in CertificateDer::pem_slice_iter(&bytes) {
        let certificate = certificate.map_err(|error| refuse(error.to_string()))?;
        roots.add(certificate).map_err(|error| refuse(error.to_string()))?;
        count += 1;
    }
    if count == 0 {
        return Err(refuse("there is no certificate in it".to_owned()));
    }
    Ok(())
}
