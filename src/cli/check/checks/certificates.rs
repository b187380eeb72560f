//! Checks the expiry of certificates.

use std::path::{Path, PathBuf};

use rustls::pki_types::UnixTime;

use super::finding::Finding;
use crate::config::{Config, database_url};
use crate::http::edge::certificates;

const SUBJECT: &str = "certificates";
/// Days before its expiry from which a certificate is reported.
const SOON: u64 = 30;
const DAY: u64 = 86_400;

/// Checks each certificate in the files of the options.
pub(super) fn check(config: &Config) -> Vec<Finding> {
    let files: [(&str, Option<&PathBuf>); 4] = [
        ("--tls-cert", config.network.tls_cert.as_ref()),
        ("--tls-client-ca", config.network.tls_client_ca.as_ref()),
        ("--keystone-ca-file", config.keystone.keystone_ca_file.as_ref()),
        ("--keystone-cert-file", config.keystone.keystone_cert_file.as_ref()),
    ];
    let mut named: Vec<(String, PathBuf)> = files
        .into_iter()
        .filter_map(|(option, path)| Some((option.to_owned(), path?.clone())))
        .collect();
    if let Some(url) = &config.database.database_url {
        let of_url = database_url::certificate_files(url).into_iter();
        named.extend(of_url.map(|(key, path)| (format!("{key} of --database-url"), path)));
    }
    let now = UnixTime::now().as_secs();
    named.iter().flat_map(|(option, path)| of_file(option, path, now)).collect()
}

/// One finding for each certificate of a file that has expired or expires soon, or one for the whole file.
fn of_file(option: &str, path: &Path, now: u64) -> Vec<Finding> {
    let place = format!("{option} {}", path.display());
    let ends = match ends(path) {
        Ok(ends) => ends,
        Err(why) => {
            let found = format!("{place}: {why}");
            return vec![Finding::failure(SUBJECT, found, "put certificates in PEM there")];
        }
    };
    let judged = ends.iter().enumerate().filter_map(|(nth, end)| {
        judge(&format!("{place}: certificate {} of {}", nth + 1, ends.len()), *end, now)
    });
    let mut findings: Vec<Finding> = judged.collect();
    if let (true, Some(first)) = (findings.is_empty(), ends.iter().min()) {
        let days = first.saturating_sub(now) / DAY;
        findings.push(Finding::fine(SUBJECT, format!("{place}: valid for {days} days")));
    }
    findings
}

/// The expiry of each certificate of a file, in seconds since 1970.
fn ends(path: &Path) -> Result<Vec<u64>, String> {
    let certificates = certificates::read(path)?;
    certificates
        .iter()
        .map(|it| certificates::expiry(it).map_err(|error| error.to_string()))
        .collect()
}

/// Reports a certificate that has expired, or expires soon. Times are in seconds since 1970.
fn judge(certificate: &str, end: u64, now: u64) -> Option<Finding> {
    let advice =
        "replace it; Berth reads the files of --tls-cert and --tls-client-ca again by itself";
    if end <= now {
        let found = format!("{certificate} ended {} days ago", (now - end) / DAY);
        return Some(Finding::failure(SUBJECT, found, advice));
    }
    let days = (end - now) / DAY;
    let found = format!("{certificate} ends in {days} days");
    (days < SOON).then(|| Finding::warning(SUBJECT, found, advice))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::super::Verdict;
    use super::{Config, DAY, check, judge, of_file};

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        config: Config,
    }

    #[test]
    fn certificates_are_named_before_they_end() {
        let verdict = |end| judge("certificate 1 of 1", end, 1000 * DAY).map(|it| it.verdict);
        assert_eq!(verdict(1030 * DAY), None);
        assert_eq!(verdict(1029 * DAY), Some(Verdict::Warning));
        assert_eq!(verdict(1000 * DAY), Some(Verdict::Failure));
    }

    #[test]
    fn the_end_is_read_from_the_file() {
        let mut parameters = rcgen::CertificateParams::new(["berth".to_owned()]).unwrap();
        parameters.not_after = rcgen::date_time_ymd(2030, 1, 31);
        let key = rcgen::KeyPair::generate().unwrap();
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), parameters.self_signed(&key).unwrap().pem()).unwrap();
        let end = 1_896_048_000;
        let verdict = |now| {
            let found = of_file("--tls-cert", file.path(), now);
            assert_eq!(found.len(), 1, "{found:?}");
            found[0].verdict
        };
        assert_eq!(verdict(end - 31 * DAY), Verdict::Fine);
        assert_eq!(verdict(end - DAY), Verdict::Warning);
        assert_eq!(verdict(end + DAY), Verdict::Failure);
        std::fs::write(file.path(), "no certificate").unwrap();
        assert_eq!(verdict(0), Verdict::Failure);
    }

    #[test]
    fn the_certificates_of_the_database_are_looked_at() {
        let url = "postgres://u@h/d?sslrootcert=/no/ca.pem&sslcert=/no/client.pem&sslkey=/no/key";
        let Cli { config } = Cli::parse_from(["berth", "--database-url", url]);
        let found: Vec<_> = check(&config).into_iter().map(|it| (it.verdict, it.found)).collect();
        assert_eq!(found.len(), 2, "{found:?}");
        for ((verdict, found), named) in found.iter().zip([
            "sslrootcert of --database-url /no/ca.pem: ",
            "sslcert of --database-url /no/client",
        ]) {
            assert!(*verdict == Verdict::Failure && found.starts_with(named), "{found}");
        }
    }
}
