//! Clients of the three services, configured from the environment.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
use object_store::azure::MicrosoftAzureBuilder;
use object_store::gcp::GoogleCloudStorageBuilder;
use object_store::{ClientOptions, RetryConfig};
use url::Url;

use crate::bucket::{Bucket, ObjectClient};
use crate::client_settings;
use crate::connector::RecordingConnector;
use crate::location::{BucketPlace, Service};
use crate::options::{CONNECT_TIMEOUT, StoreOptions};
use crate::web::install_cryptography;

/// Shortest secret that is removed from messages. Shorter values are flags and names.
const MIN_SECRET_CHARS: usize = 8;

/// Bucket and environment of a client.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct ClientKey {
    service: Service,
    bucket: String,
    account: Option<String>,
    /// Endpoint and credentials.
    environment: BTreeMap<String, String>,
}

/// Clients of this process. All prefixes of a bucket share the connections and the temporary credentials of one client.
static CLIENTS: LazyLock<Mutex<BTreeMap<ClientKey, Arc<dyn ObjectClient>>>> = LazyLock::new(Mutex::default);

/// Connects to a bucket. Sends no request.
pub(crate) fn connect(place: &BucketPlace, options: &StoreOptions) -> io::Result<Bucket> {
    let environment =
        store_variables(&options.environment).map(|(name, value)| (name.clone(), value.clone())).collect();
    let BucketPlace { service, bucket, account, .. } = place.clone();
    let key = ClientKey { service, bucket, account, environment };
    let mut clients = CLIENTS.lock().unwrap_or_else(PoisonError::into_inner);
    let client = match clients.get(&key) {
        Some(client) => Arc::clone(client),
        None => Arc::clone(clients.entry(key).or_insert(build(place, options)?)),
    };
    Ok(Bucket::new(client, place, options.stall_timeout))
}

fn build(place: &BucketPlace, options: &StoreOptions) -> io::Result<Arc<dyn ObjectClient>> {
    install_cryptography();
    refuse_endpoints(place, options)?;
    if let Some(problem) = client_settings::problem(options, place.service.variables()) {
        return Err(io::Error::new(ErrorKind::InvalidInput, format!("{}: {problem}", place.display)));
    }
    let client = match place.service {
        Service::S3 => s3(place, options),
        Service::Google => google(place, options),
        Service::Azure => azure(place, options),
    };
    client.map_err(|error| {
        let message = format!("{}: cannot configure the store: {}", place.display, without_secrets(&error, options));
        io::Error::new(ErrorKind::InvalidInput, message)
    })
}

/// Refuses endpoints that are no URL: the library would end the thread.
fn refuse_endpoints(place: &BucketPlace, options: &StoreOptions) -> io::Result<()> {
    let is_endpoint = |name: &str| name.contains("ENDPOINT") || name == "GOOGLE_BASE_URL";
    let named = store_variables(&options.environment).filter(|(name, value)| is_endpoint(name) && !value.is_empty());
    for (name, value) in named {
        if !Url::parse(value).is_ok_and(|url| url.has_host()) {
            let message = format!("{}: {name} is not a URL such as `https://HOST`", place.display);
            return Err(io::Error::new(ErrorKind::InvalidInput, message));
        }
    }
    Ok(())
}

fn s3(place: &BucketPlace, options: &StoreOptions) -> object_store::Result<Arc<dyn ObjectClient>> {
    let builder = AmazonS3Builder::new().with_client_options(client_options()).with_retry(no_retries());
    let builder =
        with_environment(builder, options, Service::S3, |builder, key, value| builder.with_config(key, value));
    // A delete of many objects hides the error of one in a good answer, and some servers do not know it.
    let builder = builder.with_http_connector(RecordingConnector::default());
    let builder = builder.with_config(AmazonS3ConfigKey::DisableBulkDelete, "true");
    Ok(Arc::new(builder.with_bucket_name(&place.bucket).build()?))
}

fn google(place: &BucketPlace, options: &StoreOptions) -> object_store::Result<Arc<dyn ObjectClient>> {
    let builder = GoogleCloudStorageBuilder::new().with_client_options(client_options());
    let builder = builder.with_retry(no_retries()).with_http_connector(RecordingConnector::default());
    let builder =
        with_environment(builder, options, Service::Google, |builder, key, value| builder.with_config(key, value));
    Ok(Arc::new(builder.with_bucket_name(&place.bucket).build()?))
}

fn azure(place: &BucketPlace, options: &StoreOptions) -> object_store::Result<Arc<dyn ObjectClient>> {
    let builder = MicrosoftAzureBuilder::new().with_client_options(client_options()).with_retry(no_retries());
    let builder =
        with_environment(builder, options, Service::Azure, |builder, key, value| builder.with_config(key, value));
    let builder = builder.with_http_connector(RecordingConnector::default());
    let builder = match &place.account {
        Some(account) => builder.with_account(account),
        None => builder,
    };
    Ok(Arc::new(builder.with_container_name(&place.bucket).build()?))
}

/// Sets every variable of the service that the builder knows.
fn with_environment<B, K: std::str::FromStr>(
    builder: B,
    options: &StoreOptions,
    service: Service,
    set: impl Fn(B, K, &str) -> B,
) -> B {
    let known =
        options.environment.iter().filter(|(name, value)| name.starts_with(service.variables()) && !value.is_empty());
    known.fold(builder, |builder, (name, value)| match name.to_ascii_lowercase().parse() {
        Ok(key) => set(builder, key, value),
        Err(_) => builder,
    })
}

/// Returns options without the time limit of a whole request: a large object may take long. `observed` limits the time
/// without progress.
fn client_options() -> ClientOptions {
    ClientOptions::new().with_timeout_disabled().with_connect_timeout(CONNECT_TIMEOUT)
}

/// Returns the policy of one attempt per call: the store repeats it.
fn no_retries() -> RetryConfig {
    RetryConfig { max_retries: 0, ..RetryConfig::default() }
}

/// Returns the message without the values of variables that may hold credentials.
fn without_secrets(error: &object_store::Error, options: &StoreOptions) -> String {
    let mut message = error.to_string();
    for value in secrets(&options.environment) {
        message = message.replace(value, "…");
    }
    message
}

fn secrets(environment: &BTreeMap<String, String>) -> impl Iterator<Item = &str> {
    let values = store_variables(environment).map(|(_, value)| value.as_str());
    values.filter(|value| value.len() >= MIN_SECRET_CHARS)
}

/// Returns the variables that configure the services.
fn store_variables(environment: &BTreeMap<String, String>) -> impl Iterator<Item = (&String, &String)> {
    let services = [Service::S3, Service::Google, Service::Azure];
    let is_store = move |name: &str| services.iter().any(|service| name.starts_with(service.variables()));
    environment.iter().filter(move |(name, _)| is_store(name))
}
