//! Values of the variables that configure a service.
//!
//! # Why
//! Credentials that come from files and secrets of a cluster often end with a line break. White space at the ends of a
//! variable is removed when it is read ([`StoreOptions::variable`](crate::StoreOptions)). Within a value, a character that
//! no header can have ends the thread in the library below, so the variable is refused by its name.

use std::collections::BTreeMap;
use std::fs;

use object_store::aws::AmazonS3ConfigKey;
use object_store::azure::AzureConfigKey;
use object_store::gcp::GoogleConfigKey;

/// Ends of the names of variables that hold a text of several lines or a path.
const TEXTS: [&str; 6] =
    ["SERVICE_ACCOUNT_KEY", "CA_CERTIFICATE", "_FILE", "_PATH", "_SERVICE_ACCOUNT", "_APPLICATION_CREDENTIALS"];

/// Variables that name a file whose whole content is a token.
const TOKEN_FILES: [&str; 3] =
    ["AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", "AWS_WEB_IDENTITY_TOKEN_FILE", "AZURE_FEDERATED_TOKEN_FILE"];

/// Returns the problem of a value that no request can hold. `start` is the beginning of the names of the service.
pub(crate) fn problem(variables: &BTreeMap<String, String>, start: &str) -> Option<String> {
    let of_service = || variables.iter().filter(|(name, _)| name.starts_with(start) && is_known(name));
    let in_variable =
        of_service().find(|(name, value)| !TEXTS.iter().any(|end| name.ends_with(end)) && !is_plain(value));
    if let Some((name, _)) = in_variable {
        return Some(format!("{name} has a line break or another character that it cannot have; set it again"));
    }
    let token_files = of_service().filter(|(name, _)| TOKEN_FILES.contains(&name.as_str()));
    // A file that cannot be read is an error of the first request.
    let mut read = token_files.filter_map(|(name, path)| Some((name, path, fs::read_to_string(path).ok()?)));
    let (name, path, _) = read.find(|(.., token)| !is_plain(token))?;
    Some(format!(
        "{path}, which {name} names, has a line break or another character that no token has; write it without"
    ))
}

fn is_plain(value: &str) -> bool {
    value.chars().all(|char| char == ' ' || char.is_ascii_graphic())
}

/// Returns true if a client has a setting of that name.
fn is_known(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    name.parse::<AmazonS3ConfigKey>().is_ok()
        || name.parse::<AzureConfigKey>().is_ok()
        || name.parse::<GoogleConfigKey>().is_ok()
}
