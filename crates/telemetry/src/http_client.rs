//! Posts to addresses that may be secrets: whom to believe, and what to say of a failure.

use std::sync::Arc;

use ureq::tls::{Certificate, PemItem, RootCerts, TlsConfig, parse_pem};
use ureq::{Agent, Error};

/// Who posts. A status is an answer, not an error; an address that has moved is for people to look at, since a redirected
/// post is no post any more.
pub(crate) fn agent() -> Agent {
    let tls = TlsConfig::builder().root_certs(roots()).build();
    let agent = Agent::config_builder()
        .tls_config(tls)
        .http_status_as_error(false)
        .max_redirects(0)
        .max_redirects_will_error(false)
        .user_agent(concat!("cloze/", env!("CARGO_PKG_VERSION")))
        .build();
    agent.into()
}

/// What went wrong, in words of our own: those of libraries may repeat the address.
pub(crate) fn why(error: &Error) -> String {
    match error {
        Error::StatusCode(status) => format!("it answered {status}"),
        Error::Timeout(_) => "there was no answer in time".to_owned(),
        Error::HostNotFound => "its host is not known".to_owned(),
        Error::ConnectionFailed => "there was no connection".to_owned(),
        // What TLS has to say of a certificate comes as this.
        Error::Io(error) if error.kind() == std::io::ErrorKind::InvalidData => format!("TLS: {}", tls(error)),
        Error::Io(error) => error.kind().to_string(),
        Error::Rustls(rustls) => format!("TLS: {}", tls(rustls)),
        Error::Tls(_) | Error::TlsRequired | Error::Pem(_) => "TLS failed".to_owned(),
        Error::BadUri(_) | Error::Http(_) => "what stands there is no address".to_owned(),
        Error::InvalidProxyUrl | Error::ConnectProxyFailed(_) => "the proxy of the environment failed".to_owned(),
        _ => "the post failed".to_owned(),
    }
}

/// A certificate that does not fit says for which name; the rest is of no secret's concern.
fn tls(error: &impl std::fmt::Debug) -> &'static str {
    let text = format!("{error:?}");
    if text.contains("UnknownIssuer") {
        "nobody vouches for its certificate; `SSL_CERT_FILE` may name who does"
    } else if text.contains("CaUsedAsEndEntity") {
        "its certificate is that of an authority, not of a host"
    } else if text.contains("NotValidForName") {
        "its certificate is for another name"
    } else if text.contains("Expired") || text.contains("NotValidYet") {
        "its certificate is not valid now"
    } else {
        "there was no agreement"
    }
}

/// Whom to believe: what `SSL_CERT_FILE` names, as a company's own hosts need it, else the list that browsers have, which
/// is built in.
fn roots() -> RootCerts {
    let Some(path) = std::env::var_os("SSL_CERT_FILE") else { return RootCerts::WebPki };
    let Ok(bytes) = std::fs::read(&path) else {
        tracing::warn!("`SSL_CERT_FILE` cannot be read; the list that is built in serves");
        return RootCerts::WebPki;
    };
    let certificates: Vec<Certificate<'static>> = parse_pem(&bytes)
        .filter_map(|item| match item {
            Ok(PemItem::Certificate(certificate)) => Some(certificate),
            _ => None,
        })
        .collect();
    RootCerts::Specific(Arc::new(certificates))
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    #[test]
    fn what_is_wrong_with_a_certificate_is_said_without_the_address() {
        let of = |text: &str| why(&Error::Io(io::Error::new(io::ErrorKind::InvalidData, text.to_owned())));
        for (text, word) in [
            ("invalid peer certificate: UnknownIssuer", "`SSL_CERT_FILE`"),
            ("invalid peer certificate: Other(CaUsedAsEndEntity)", "authority"),
            ("invalid peer certificate: Expired https://s3cret", "not valid now"),
            ("https://s3cret", "no agreement"),
        ] {
            let said = of(text);
            assert!(said.starts_with("TLS: ") && said.contains(word) && !said.contains("s3cret"), "{said}");
        }
    }
}
