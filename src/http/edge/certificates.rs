//! Certificates in PEM files, and their expiry.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier;
use rustls::crypto::ring::default_provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{CertificateError, Error, RootCertStore};

/// Start of the year 10000, after the expiry of all certificates, in seconds since 1970.
const LATE: u64 = 253_402_300_800;

/// Reads the certificates of a PEM file; there is at least one.
///
/// # Errors
/// The file cannot be read, or contains no certificate.
pub fn read(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let read = CertificateDer::pem_file_iter(path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let certificates = read.map_err(|error| error.to_string())?;
    if certificates.is_empty() {
        return Err("it contains no certificate".to_owned());
    }
    Ok(certificates)
}

/// Returns the expiry of a certificate, in seconds since 1970. Verifies the certificate with the TLS library at a time
/// when it is invalid: the error has its expiry.
///
/// # Errors
/// The certificate cannot be parsed.
pub fn expiry(certificate: &CertificateDer<'static>) -> Result<u64, Error> {
    let mut roots = RootCertStore::empty();
    roots.add(certificate.clone())?;
    let verifier =
        WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::new(default_provider()));
    let verifier = verifier.build().map_err(|error| Error::General(error.to_string()))?;
    let name = ServerName::try_from("localhost").map_err(|it| Error::General(it.to_string()))?;
    let late = UnixTime::since_unix_epoch(Duration::from_secs(LATE));
    match verifier.verify_server_cert(certificate, &[], &name, &[], late) {
        Err(Error::InvalidCertificate(CertificateError::ExpiredContext { not_after, .. })) => {
            Ok(not_after.as_secs())
        }
        Err(error) => Err(error),
        Ok(_) => Ok(LATE),
    }
}

#[cfg(test)]
mod tests {
    use rcgen::{BasicConstraints, CertificateParams, IsCa, KeyPair, date_time_ymd};

    use super::expiry;

    #[test]
    fn the_expiry_is_read_of_servers_and_of_authorities() {
        for is_ca in [IsCa::NoCa, IsCa::Ca(BasicConstraints::Unconstrained)] {
            let mut parameters = CertificateParams::new(["berth".to_owned()]).unwrap();
            parameters.not_after = date_time_ymd(2030, 1, 31);
            parameters.is_ca = is_ca;
            let key = KeyPair::generate().unwrap();
            let certificate = parameters.self_signed(&key).unwrap();
            assert_eq!(expiry(certificate.der()), Ok(1_896_048_000));
        }
    }
}
