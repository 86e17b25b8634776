//! HTTP client below `object_store` that records why a request failed.
//!
//! # Why
//! Errors of `object_store` contain URLs and bodies of answers, which may contain credentials, and hide the status.
//! This client keeps the status and the error code, and passes error answers on without their body.

use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::StreamExt as _;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse, HttpResponseBody, HttpService,
};
use object_store::{ClientConfigKey, ClientOptions};
use reqwest::{Certificate, NoProxy, Proxy};

use crate::failure::{self, Failure};
use crate::options::CONNECT_TIMEOUT;
use crate::progress::limited;
use crate::web::client_builder;
use crate::{answered, client_settings, list_pages};

/// Longest part of an error answer that is searched for a code.
const MAX_BODY_BYTES: usize = 64 << 10;

/// Longest page of a list: a thousand keys of a kilobyte each have a few megabytes.
const MAX_PAGE_BYTES: usize = 64 << 20;

/// Address of the credential services of AWS, Azure and Google in their machines.
const METADATA_HOSTS: [&str; 3] = ["169.254.169.254", "169.254.170.2", "metadata.google.internal"];

tokio::task_local! {
    /// Failure of the newest request of this call.
    static NEWEST: Arc<Mutex<Option<Failure>>>;
}

/// Connector whose clients record failures.
#[derive(Debug, Default)]
pub(crate) struct RecordingConnector {}

impl HttpConnector for RecordingConnector {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        let client = client(options)
            .map_err(|error| object_store::Error::Generic { store: "HTTP client", source: Box::new(error) })?;
        Ok(HttpClient::new(RecordingClient(HttpClient::new(client))))
    }
}

/// Returns a client with those of the options that users can set, and the shorter time limit of credential services.
fn client(options: &ClientOptions) -> reqwest::Result<reqwest::Client> {
    let value = |key: ClientConfigKey| options.get_config_value(&key);
    let is_on = |key: ClientConfigKey| value(key).and_then(|value| client_settings::is_on(&value)) == Some(true);
    let connect_timeout = value(ClientConfigKey::ConnectTimeout).and_then(|text| client_settings::seconds(&text));
    let mut builder = client_builder()
        .connect_timeout(connect_timeout.map_or(CONNECT_TIMEOUT, Duration::from_secs))
        .http1_only()
        .https_only(!is_on(ClientConfigKey::AllowHttp))
        .tls_danger_accept_invalid_certs(is_on(ClientConfigKey::AllowInvalidCertificates));
    if let Some(url) = value(ClientConfigKey::ProxyUrl) {
        let excluded = value(ClientConfigKey::ProxyExcludes).and_then(|hosts| NoProxy::from_string(&hosts));
        builder = builder.proxy(Proxy::all(url)?.no_proxy(excluded));
    }
    let certificate = value(ClientConfigKey::ProxyCaCertificate);
    let certificate = certificate.map(|certificate| Certificate::from_pem(certificate.as_bytes())).transpose()?;
    builder = match certificate {
        Some(certificate) if is_on(ClientConfigKey::NoSystemCertificates) => builder.tls_certs_only([certificate]),
        Some(certificate) => builder.tls_certs_merge([certificate]),
        None => builder,
    };
    builder.build()
}

#[derive(Debug)]
struct RecordingClient(HttpClient);

#[async_trait]
impl HttpService for RecordingClient {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let is_metadata = request.uri().host().is_some_and(|host| METADATA_HOSTS.contains(&host));
        let server = request.uri().authority().map_or(String::new(), |server| server.as_str().to_owned());
        let is_list = list_pages::is_list(request.method().as_str(), request.uri().query().unwrap_or_default());
        let answer = self.0.execute(request).await;
        let failure = match &answer {
            Ok(response) if !response.status().is_client_error() && !response.status().is_server_error() => {
                answered::record(&server);
                if response.status().is_redirection() {
                    record(Failure::from_status(response.status().as_u16(), String::new()));
                }
                return if is_list { usable_page(answer?).await } else { answer };
            }
            Ok(response) if is_metadata && response.status().is_client_error() => without_credentials(),
            Ok(_) => {
                answered::record(&server);
                return record_answer(answer?).await;
            }
            Err(_) if is_metadata && !answered::has(&server) => without_credentials(),
            Err(error) => Failure::from_transport(error, &server),
        };
        record(failure);
        answer
    }
}

/// Returns a page of a list without objects that no request can name.
async fn usable_page(response: HttpResponse) -> Result<HttpResponse, HttpError> {
    let (parts, body) = response.into_parts();
    let page = beginning(body, MAX_PAGE_BYTES).await.inspect_err(|error| record(failure::cut_body(error).into()))?;
    let usable = list_pages::usable_part(&page).map_err(|problem| {
        record(std::io::Error::new(problem.kind(), problem.to_string()).into());
        HttpError::new(HttpErrorKind::Decode, problem)
    })?;
    Ok(HttpResponse::from_parts(parts, Bytes::from(usable).into()))
}

/// Records an error answer, and returns it without its body.
async fn record_answer(response: HttpResponse) -> Result<HttpResponse, HttpError> {
    let (parts, body) = response.into_parts();
    let header = |name: &str| parts.headers.get(name).and_then(|code| code.to_str().ok()).map(str::to_owned);
    let code = match header("x-ms-error-code") {
        Some(code) => failure::checked_code(&code),
        None => failure::code_in(&String::from_utf8_lossy(&beginning(body, MAX_BODY_BYTES).await?)),
    };
    record(Failure::from_answer(parts.status.as_u16(), code, &parts.headers));
    Ok(HttpResponse::from_parts(parts, Bytes::new().into()))
}

/// Reads a body up to a bound. The rest is not read.
async fn beginning(body: HttpResponseBody, max_bytes: usize) -> Result<Vec<u8>, HttpError> {
    let mut stream = body.bytes_stream();
    let mut beginning = Vec::new();
    while let Some(chunk) = stream.next().await {
        let chunk = chunk?;
        beginning.extend_from_slice(&chunk[..chunk.len().min(max_bytes - beginning.len())]);
        if beginning.len() == max_bytes {
            break;
        }
    }
    Ok(beginning)
}

/// Returns the failure of a machine without a role.
fn without_credentials() -> Failure {
    let message = "no credentials were found; set those of docs/object-stores.md in the environment \
                   (public buckets: AWS_SKIP_SIGNATURE=true, GOOGLE_SKIP_SIGNATURE=true or AZURE_SKIP_SIGNATURE=true)";
    std::io::Error::new(std::io::ErrorKind::PermissionDenied, message).into()
}

fn record(failure: Failure) {
    // Outside of `observed` no caller reads it.
    let _ = NEWEST.try_with(|newest| *newest.lock().unwrap_or_else(PoisonError::into_inner) = Some(failure));
}

/// Runs one call of `object_store` on `place` with a time limit, and returns the reason if it fails.
pub(crate) async fn observed<T>(
    place: &str,
    limit: Duration,
    call: impl Future<Output = object_store::Result<T>>,
) -> Result<T, Failure> {
    let newest = Arc::new(Mutex::new(None));
    limited(place, limit, NEWEST.scope(Arc::clone(&newest), call)).await?.map_err(|error| {
        let newest = newest.lock().unwrap_or_else(PoisonError::into_inner).take();
        newest.unwrap_or_else(|| without_request(&error))
    })
}

/// Returns the failure of a call whose requests all had good answers, or that sent none.
fn without_request(error: &object_store::Error) -> Failure {
    use std::io::{Error, ErrorKind};
    match error {
        object_store::Error::NotFound { .. } => ErrorKind::NotFound.into(),
        object_store::Error::NotImplemented { .. } | object_store::Error::NotSupported { .. } => {
            Error::new(ErrorKind::Unsupported, "the store does not support this request")
        }
        // S3 may report an overload in the body of a good answer to a long request.
        error if error.to_string().contains("Server returned error response") => {
            Error::new(ErrorKind::WouldBlock, "the server answered 200 with an error in the body")
        }
        error => failure::other(error),
    }
    .into()
}
