//! Redirects that are followed.
//!
//! # Definition
//! A redirect leads to an address of the web, and not from an encrypted connection to an unencrypted one. A server at a
//! public address must not lead to addresses that only this machine or its network reaches: such a redirect would read
//! services in the name of a user who has named a public server. An address is that of the connection if it is known, so names
//! count too.

use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use url::{Host, Url};

/// Checks a redirect, before a request. `from` is the address that sent the first redirect.
pub(crate) fn check(url: &Url, target: &Url, from: Option<SocketAddr>) -> io::Result<()> {
    if !matches!(target.scheme(), "http" | "https") {
        let scheme: String = target.scheme().chars().take(20).collect();
        return Err(refused(&format!("the server redirects to `{scheme}:`, which is no address of the web")));
    }
    if url.scheme() == "https" && target.scheme() == "http" {
        return Err(refused("the server redirects to an address that is not encrypted"));
    }
    let address = match target.host() {
        Some(Host::Ipv4(address)) => Some(IpAddr::V4(address)),
        Some(Host::Ipv6(address)) => Some(IpAddr::V6(address)),
        Some(Host::Domain(name)) if is_localhost(name) => Some(Ipv4Addr::LOCALHOST.into()),
        _ => None,
    };
    check_address(from.map(|from| from.ip()), address)
}

/// Checks the address that an answer came from after a redirect.
pub(crate) fn check_answer(from: Option<SocketAddr>, answered: Option<SocketAddr>) -> io::Result<()> {
    check_address(from.map(|from| from.ip()), answered.map(|answered| answered.ip()))
}

fn check_address(from: Option<IpAddr>, to: Option<IpAddr>) -> io::Result<()> {
    match (from, to) {
        (Some(from), Some(to)) if !is_internal(from) && is_internal(to) => Err(refused(
            "the server at a public address redirects to an address of this network; name that address itself",
        )),
        _ => Ok(()),
    }
}

fn refused(message: &str) -> io::Error {
    io::Error::new(ErrorKind::Unsupported, message)
}

fn is_localhost(name: &str) -> bool {
    let name = name.trim_end_matches('.').to_ascii_lowercase();
    name == "localhost" || name.ends_with(".localhost")
}

/// Returns true for addresses of this machine and of networks without public addresses.
fn is_internal(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(address) => {
            let [first, second, ..] = address.octets();
            // 100.64.0.0/10 is shared by the networks of a provider.
            let is_shared = first == 100 && second & 0xc0 == 64;
            address.is_loopback() || address.is_private() || address.is_link_local() || first == 0 || is_shared
        }
        IpAddr::V6(address) => {
            address.is_loopback()
                || address.is_unspecified()
                || address.is_unique_local()
                || address.is_unicast_link_local()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(url: &str, target: &str, from: &str) -> Result<(), String> {
        let parsed = |url: &str| Url::parse(url).expect("a URL");
        check(&parsed(url), &parsed(target), Some(SocketAddr::new(from.parse().expect("an address"), 443)))
            .map_err(|error| error.to_string())
    }

    #[test]
    fn a_public_server_does_not_lead_into_this_network() {
        for target in [
            "http://127.0.0.1/",
            "http://localhost:8080/",
            "http://a.localhost./",
            "http://169.254.169.254/latest",
            "http://10.1.2.3/",
            "http://192.168.0.1/",
            "http://172.16.0.1/",
            "http://100.64.0.1/",
            "http://0.0.0.0/",
            "http://2130706433/",
            "http://[::1]/",
            "http://[fd00::1]/",
            "http://[fe80::1]/",
            "http://[::ffff:10.0.0.1]/",
        ] {
            let error = outcome("http://a.example/", target, "93.184.216.34").expect_err(target);
            assert!(error.contains("an address of this network"), "{target}: {error}");
            // Servers of this network may lead to each other.
            outcome("http://a.example/", target, "10.0.0.1").expect(target);
            outcome("http://a.example/", target, "::1").expect(target);
        }
        for target in ["http://b.example/", "https://a.example/x", "http://8.8.8.8/", "http://[2001:db8::1]/"] {
            outcome("http://a.example/", target, "93.184.216.34").expect(target);
        }
        let address = |text: &str| Some(SocketAddr::new(text.parse().expect("an address"), 80));
        check_answer(address("8.8.8.8"), address("192.168.1.1")).expect_err("a name that leads into this network");
        check_answer(address("10.0.0.1"), address("192.168.1.1")).expect("both are of this network");
        check_answer(None, address("192.168.1.1")).expect("nothing is known");
    }

    #[test]
    fn a_refused_scheme_is_named() {
        for (url, target, expected) in [
            ("https://a.example/", "http://a.example/", "not encrypted"),
            ("https://a.example/", "file:///etc/passwd", "redirects to `file:`"),
            ("http://a.example/", "ftp://a.example/", "redirects to `ftp:`"),
        ] {
            let error = outcome(url, target, "8.8.8.8").expect_err(target);
            assert!(error.contains(expected), "{target}: {error}");
        }
    }
}
