//! Clients of the three services, configured from the environment.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
use object_store::azure::{AzureConfigKey, MicrosoftAzureBuilder};
use object_store::gcp::{GoogleCloudStorageBuilder, GoogleConfigKey};
use object_store::{ClientOptions, RetryConfig};
use url::Url;

use crate::bucket::{Bucket, ObjectClient};
use crate::client_settings;
use crate::connector::RecordingConnector;
use crate::location::{BucketPlace, Service};
use crate::options::{CONNECT_TIMEOUT, StoreOptions};
use crate::values;
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
    environment: Variables,
}

/// Clients of this process. All prefixes of a bucket share the connections and the temporary credentials of one client.
static CLIENTS: LazyLock<Mutex<BTreeMap<ClientKey, Arc<dyn ObjectClient>>>> = LazyLock::new(Mutex::default);

/// Connects to a bucket. Sends no request.
pub(crate) fn connect(place: &BucketPlace, options: &StoreOptions) -> io::Result<Bucket> {
    let environment = store_variables(options);
    let BucketPlace { service, bucket, account, .. } = place.clone();
    let key = ClientKey { service, bucket, account, environment: environment.clone() };
    let mut clients = CLIENTS.lock().unwrap_or_else(PoisonError::into_inner);
    let client = match clients.get(&key) {
        Some(client) => Arc::clone(client),
        None => Arc::clone(clients.entry(key).or_insert(build(place, options, &environment)?)),
    };
    Ok(Bucket::new(client, place, options.stall_timeout))
}

/// Variables of the services by name, without white space at the ends of their values.
type Variables = BTreeMap<String, String>;

fn build(place: &BucketPlace, options: &StoreOptions, variables: &Variables) -> io::Result<Arc<dyn ObjectClient>> {
    install_cryptography();
    let start = place.service.variables();
    let problem = values::problem(variables, start)
        .or_else(|| endpoint_problem(variables, start))
        .or_else(|| client_settings::problem(options, start))
        .or_else(|| encryption_problem(variables, start));
    if let Some(problem) = problem {
        return Err(io::Error::new(ErrorKind::InvalidInput, format!("{}: {problem}", place.display)));
    }
    let client = match place.service {
        Service::S3 => s3(place, variables),
        Service::Google => google(place, variables),
        Service::Azure => azure(place, variables),
    };
    client.map_err(|error| {
        let message = format!("{}: cannot configure the store: {}", place.display, without_secrets(&error, variables));
        io::Error::new(ErrorKind::InvalidInput, message)
    })
}

/// Returns the problem of an endpoint that is no URL: the library would end the thread.
fn endpoint_problem(variables: &Variables, start: &str) -> Option<String> {
    let is_endpoint = |name: &str| name.contains("ENDPOINT") || name == "GOOGLE_BASE_URL";
    let mut named = variables.iter().filter(|(name, _)| name.starts_with(start) && is_endpoint(name));
    let (name, _) = named.find(|(_, value)| !Url::parse(value).is_ok_and(|url| url.has_host()))?;
    Some(format!("{name} is not a URL such as `https://HOST`"))
}

/// Returns the problem of an endpoint without encryption that no setting allows.
fn encryption_problem(variables: &Variables, start: &str) -> Option<String> {
    let is_service = |name: &str| {
        let key = name.to_ascii_lowercase();
        matches!(key.parse(), Ok(AmazonS3ConfigKey::Endpoint | AmazonS3ConfigKey::S3Endpoint))
            || matches!(key.parse(), Ok(AzureConfigKey::Endpoint))
            || matches!(key.parse(), Ok(GoogleConfigKey::BaseUrl))
    };
    let is_plain = |value: &str| Url::parse(value).is_ok_and(|url| url.scheme() == "http");
    let mut named = variables.iter().filter(|(name, _)| name.starts_with(start) && is_service(name));
    let (name, _) = named.find(|(_, value)| is_plain(value))?;
    let allow = format!("{start}ALLOW_HTTP");
    let is_allowed = variables.get(&allow).is_some_and(|value| client_settings::is_on(value) == Some(true));
    let message =
        || format!("{name} is `http://`, without encryption; set {allow}=true to allow it, or use `https://`");
    (!is_allowed).then(message)
}

fn s3(place: &BucketPlace, variables: &Variables) -> object_store::Result<Arc<dyn ObjectClient>> {
    let builder = AmazonS3Builder::new().with_client_options(client_options()).with_retry(no_retries());
    let builder =
        with_variables(builder, variables, Service::S3, |builder, key, value| builder.with_config(key, value));
    // A delete of many objects hides the error of one in a good answer, and some servers do not know it.
    let builder = builder.with_http_connector(RecordingConnector::default());
    let builder = builder.with_config(AmazonS3ConfigKey::DisableBulkDelete, "true");
    Ok(Arc::new(builder.with_bucket_name(&place.bucket).build()?))
}

fn google(place: &BucketPlace, variables: &Variables) -> object_store::Result<Arc<dyn ObjectClient>> {
    let builder = GoogleCloudStorageBuilder::new().with_client_options(client_options());
    let builder = builder.with_retry(no_retries()).with_http_connector(RecordingConnector::default());
    let builder =
        with_variables(builder, variables, Service::Google, |builder, key, value| builder.with_config(key, value));
    Ok(Arc::new(builder.with_bucket_name(&place.bucket).build()?))
}

fn azure(place: &BucketPlace, variables: &Variables) -> object_store::Result<Arc<dyn ObjectClient>> {
    let builder = MicrosoftAzureBuilder::new().with_client_options(client_options()).with_retry(no_retries());
    let builder =
        with_variables(builder, variables, Service::Azure, |builder, key, value| builder.with_config(key, value));
    let builder = builder.with_http_connector(RecordingConnector::default());
    let builder = match &place.account {
        Some(account) => builder.with_account(account),
        None => builder,
    };
    Ok(Arc::new(builder.with_container_name(&place.bucket).build()?))
}

/// Sets every variable of the service that the builder knows.
fn with_variables<B, K: std::str::FromStr>(
    builder: B,
    variables: &Variables,
    service: Service,
    set: impl Fn(B, K, &str) -> B,
) -> B {
    let known = variables.iter().filter(|(name, _)| name.starts_with(service.variables()));
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
fn without_secrets(error: &object_store::Error, variables: &Variables) -> String {
    let secrets = variables.values().filter(|value| value.len() >= MIN_SECRET_CHARS);
    secrets.fold(error.to_string(), |message, secret| message.replace(secret.as_str(), "…"))
}

/// Returns the variables that configure the services, except empty ones.
fn store_variables(options: &StoreOptions) -> Variables {
    let services = [Service::S3, Service::Google, Service::Azure];
    let is_store = |name: &&String| services.iter().any(|service| name.starts_with(service.variables()));
    let named = options.environment.keys().filter(is_store);
    named.filter_map(|name| Some((name.clone(), options.variable(name)?.to_owned()))).collect()
}
