//! Settings of HTTP clients in the environment: `AWS_PROXY_URL`, `AZURE_ALLOW_HTTP` and the like.
//!
//! The client is our own ([`connector`](crate::connector)), so it has a part of the settings of `object_store`. Others are
//! refused: a setting without an effect misleads.

use object_store::ClientConfigKey;

use crate::options::StoreOptions;

/// Names of the settings that have an effect, without their beginning.
const SUPPORTED: &str = "ALLOW_HTTP, ALLOW_INVALID_CERTIFICATES, CONNECT_TIMEOUT, DEFAULT_CONTENT_TYPE, \
                         DISABLE_SYSTEM_CERTIFICATES, HTTP1_ONLY, PROXY_CA_CERTIFICATE, PROXY_EXCLUDES, PROXY_URL";

/// Returns the problem of a setting that has no effect or whose value is none. `start` is the beginning of the names.
pub(crate) fn problem(options: &StoreOptions, start: &str) -> Option<String> {
    let names = options.environment.keys().filter(|name| name.starts_with(start));
    names.filter_map(|name| Some((name, options.variable(name)?))).find_map(|(name, value)| {
        let key: ClientConfigKey = name[start.len()..].to_ascii_lowercase().parse().ok()?;
        match key {
            ClientConfigKey::AllowHttp | ClientConfigKey::AllowInvalidCertificates => switch_problem(name, value),
            ClientConfigKey::NoSystemCertificates => {
                let certificate = format!("{start}PROXY_CA_CERTIFICATE");
                let is_alone = is_on(value) == Some(true) && options.variable(&certificate).is_none();
                let alone = || format!("{name} leaves no certificate to trust; set {certificate} too, or unset it");
                switch_problem(name, value).or_else(|| is_alone.then(alone))
            }
            // Requests are parallel, and HTTP/1 uses one connection for each.
            ClientConfigKey::Http1Only => {
                let other = || format!("{name} is off, but only HTTP/1 is supported; unset it");
                switch_problem(name, value).or_else(|| (is_on(value) == Some(false)).then(other))
            }
            ClientConfigKey::ConnectTimeout => {
                seconds(value).is_none().then(|| format!("{name} is not a number of seconds such as `10s`"))
            }
            ClientConfigKey::DefaultContentType
            | ClientConfigKey::ProxyUrl
            | ClientConfigKey::ProxyCaCertificate
            | ClientConfigKey::ProxyExcludes => None,
            _ => Some(format!("{name} is not supported; unset it. Supported after {start}: {SUPPORTED}")),
        }
    })
}

fn switch_problem(name: &str, value: &str) -> Option<String> {
    is_on(value).is_none().then(|| format!("{name} is neither `true` nor `false`"))
}

/// Returns the value of a switch.
pub(crate) fn is_on(value: &str) -> Option<bool> {
    match &*value.to_ascii_lowercase() {
        "1" | "true" | "on" | "yes" | "y" => Some(true),
        "0" | "false" | "off" | "no" | "n" => Some(false),
        _ => None,
    }
}

/// Returns the seconds of `10s`.
pub(crate) fn seconds(value: &str) -> Option<u64> {
    value.trim().strip_suffix('s')?.trim().parse().ok().filter(|&seconds| seconds > 0)
}
