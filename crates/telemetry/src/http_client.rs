//! HTTP client for addresses that may be secrets: trusted certificates, and error messages without the address.

use std::sync::Arc;

use ureq::tls::{Certificate, PemItem, RootCerts, TlsConfig, parse_pem};
use ureq::{Agent, Error};

/// Creates the HTTP agent. A status is a response, not an error. Redirects are not followed, because a redirected POST
/// becomes a GET; the user must correct the address.
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

/// Returns the error message. The messages of the libraries are not used, because they may repeat the address.
pub(crate) fn error_text(error: &Error) -> String {
    match error {
        Error::StatusCode(status) => format!("the server answered with status {status}"),
        Error::Timeout(_) => "timeout: no response".to_owned(),
        Error::HostNotFound => "unknown host".to_owned(),
        Error::ConnectionFailed => "connection failed".to_owned(),
        // TLS reports certificate errors as this kind.
        Error::Io(error) if error.kind() == std::io::ErrorKind::InvalidData => format!("TLS: {}", tls(error)),
        Error::Io(error) => error.kind().to_string(),
        Error::Rustls(rustls) => format!("TLS: {}", tls(rustls)),
        Error::Tls(_) | Error::TlsRequired | Error::Pem(_) => "TLS failed".to_owned(),
        Error::BadUri(_) | Error::Http(_) => "invalid address".to_owned(),
        Error::InvalidProxyUrl | Error::ConnectProxyFailed(_) => {
            "the proxy of the environment variables failed".to_owned()
        }
        _ => "the request failed".to_owned(),
    }
}

/// Returns the category of a TLS error. The full text is not used, because it may contain the host name.
fn tls(error: &impl std::fmt::Debug) -> &'static str {
    let text = format!("{error:?}");
    if text.contains("UnknownIssuer") {
        "unknown certificate authority; set `SSL_CERT_FILE` to a file that has it"
    } else if text.contains("CaUsedAsEndEntity") {
        "the certificate is that of an authority, not of a host"
    } else if text.contains("NotValidForName") {
        "the certificate is for another host name"
    } else if text.contains("Expired") || text.contains("NotValidYet") {
        "the certificate is expired or not yet valid"
    } else {
        "handshake failed"
    }
}

/// Returns the trusted certificate authorities: those of `SSL_CERT_FILE`, which internal hosts of a company need, else
/// the built-in list of browsers.
fn roots() -> RootCerts {
    let Some(path) = std::env::var_os("SSL_CERT_FILE") else { return RootCerts::WebPki };
    let Ok(bytes) = std::fs::read(&path) else {
        tracing::warn!("http client: `SSL_CERT_FILE` cannot be read; using the built-in certificate authorities");
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
    fn certificate_errors_do_not_contain_the_address() {
        let of = |text: &str| error_text(&Error::Io(io::Error::new(io::ErrorKind::InvalidData, text.to_owned())));
        for (text, word) in [
            ("invalid peer certificate: UnknownIssuer", "`SSL_CERT_FILE`"),
            ("invalid peer certificate: Other(CaUsedAsEndEntity)", "authority"),
            ("invalid peer certificate: Expired https://s3cret", "expired"),
            ("https://s3cret", "handshake failed"),
        ] {
            let message = of(text);
            assert!(message.starts_with("TLS: ") && message.contains(word) && !message.contains("s3cret"), "{message}");
        }
    }
}
