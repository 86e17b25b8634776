//! HTTP routes of the server.

use std::convert::Infallible;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::rejection::{QueryRejection, StringRejection};
use axum::extract::{Query, Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::sse::{Event as Sse, KeepAlive, Sse as Stream};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use futures_util::stream;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::{Instant, sleep_until, timeout};
use tower_http::limit::RequestBodyLimitLayer;
use tower_http::set_header::HeaderMetadata;
use tower_http::set_header::response::SetMultipleResponseHeadersLayer;
use tower_http::timeout::TimeoutLayer;

use crate::access::{Access, Purpose, Refusal};
use crate::backend::{Action, ApiError, Backend};
use crate::broadcast::{Id, Message, ReadResult};
use crate::limits::{ANSWER_TIME, BODY_BYTES, HEAD_TIME, KEEP_ALIVE, LISTEN_TIME, LISTENERS, QUEUE_TIME, ROWS};
use crate::metrics;
use crate::page::LIVE;
use crate::run_state::RunState;
use crate::shutdown::wait;

/// Shared state of all request handlers.
#[derive(Clone)]
pub(crate) struct AppState {
    pub(crate) seen: Arc<RunState>,
    pub(crate) subject: Arc<dyn Backend>,
    pub(crate) access: Arc<Access>,
    /// Permits for event streams. `tower::limit` would count a stream only until its response begins.
    pub(crate) listeners: Arc<Semaphore>,
    /// Permit for slow requests, which run one at a time. If a client disconnects or times out, `tower::limit` would
    /// start the next request while the thread of the old one is still running.
    pub(crate) slow: Arc<Semaphore>,
    /// Closes when the server ends.
    pub(crate) end: watch::Receiver<bool>,
}

impl AppState {
    pub(crate) fn new(
        seen: Arc<RunState>,
        subject: Arc<dyn Backend>,
        access: Access,
        end: watch::Receiver<bool>,
    ) -> Self {
        let listeners = Arc::new(Semaphore::new(LISTENERS));
        let slow = Arc::new(Semaphore::new(1));
        Self { seen, subject, access: Arc::new(access), listeners, slow, end }
    }

    fn listening(&self) -> usize {
        LISTENERS.saturating_sub(self.listeners.available_permits())
    }
}

/// Builds the router with all routes and layers.
pub(crate) fn router(site: AppState) -> Router {
    let with_body = Router::new()
        .route("/log-level", post(log_level))
        .route("/note", post(note))
        // The body must arrive within the time limit of a head.
        .layer(TimeoutLayer::with_status_code(StatusCode::REQUEST_TIMEOUT, HEAD_TIME));
    let read_only = Router::new()
        .route("/", get(page))
        // Browsers request this path regardless of the page.
        .route("/favicon.ico", get(|| async { StatusCode::NO_CONTENT }))
        .route("/history", get(history))
        .route("/status", get(status))
        .route("/config", get(config))
        .route("/runs", get(runs))
        .route("/rows", get(rows))
        .route("/metrics", get(scrape))
        .route("/livez", get(live))
        .route("/readyz", get(ready))
        .route("/startupz", get(started))
        .route("/checkpoint", post(checkpoint))
        .route("/stop", post(stop))
        .layer(TimeoutLayer::with_status_code(StatusCode::GATEWAY_TIMEOUT, ANSWER_TIME));
    read_only
        .merge(with_body)
        // No time limit: an event stream ends after `LISTEN_TIME`.
        .route("/events", get(events))
        .fallback(not_found)
        .method_not_allowed_fallback(method_not_allowed)
        .layer(RequestBodyLimitLayer::new(BODY_BYTES))
        .layer(middleware::map_response(with_error_text))
        .layer(middleware::from_fn_with_state(site.clone(), authorize))
        .layer(SetMultipleResponseHeadersLayer::overriding(vec![
            fixed(header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
            fixed(header::REFERRER_POLICY, "no-referrer"),
            fixed(HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
        ]))
        .layer(SetMultipleResponseHeadersLayer::if_not_present(vec![
            fixed(header::CACHE_CONTROL, "no-store"),
            // A response other than the page runs no script if it is opened as a page.
            fixed(header::CONTENT_SECURITY_POLICY, "default-src 'none'; frame-ancestors 'none'"),
        ]))
        .with_state(site)
}

fn fixed(name: HeaderName, value: &'static str) -> HeaderMetadata<Response> {
    (name, HeaderValue::from_static(value)).into()
}

/// Middleware that refuses requests without access.
async fn authorize(State(site): State<AppState>, request: Request, next: Next) -> Response {
    match check_access(&site, &request) {
        Ok(()) => next.run(request).await,
        Err(Refusal { status, why }) => refused(status, &why),
    }
}

/// Adds an error text to the responses of layers, which have only a status.
async fn with_error_text(response: Response) -> Response {
    match response.status() {
        status @ StatusCode::PAYLOAD_TOO_LARGE => {
            refused(status, &format!("the request body is larger than {BODY_BYTES} bytes"))
        }
        status @ StatusCode::REQUEST_TIMEOUT => refused(status, "the request body did not arrive in time"),
        StatusCode::GATEWAY_TIMEOUT => busy("the request timed out; retry"),
        _ => response,
    }
}

/// Checks whether a request is allowed. An unsupported action is refused before the token is checked.
fn check_access(site: &AppState, request: &Request) -> Result<(), Refusal> {
    site.access.check_target(request.uri())?;
    let path = request.uri().path();
    let headers = request.headers();
    let action = path.strip_prefix('/').filter(|name| Action::NAMES.contains(name));
    match (request.method(), action) {
        (&Method::GET | &Method::HEAD, _) if path == "/rows" => site.access.check(headers, Purpose::Corpus),
        (&Method::POST, Some(action)) => {
            site.access.check(headers, Purpose::Look)?;
            if !site.subject.actions().contains(&action) {
                let why = format!("action `{action}` is not supported by this command");
                return Err(Refusal { status: StatusCode::NOT_FOUND, why });
            }
            site.access.check(headers, Purpose::Change)
        }
        _ => site.access.check(headers, Purpose::Look),
    }
}

/// Status 503 with a `Retry-After` header.
fn busy(why: &str) -> Response {
    let mut response = refused(StatusCode::SERVICE_UNAVAILABLE, why);
    response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("5"));
    response
}

/// Returns the query parameters, or the error text.
fn parameters<T>(query: Result<Query<T>, QueryRejection>) -> Result<T, String> {
    query.map(|Query(parameters)| parameters).map_err(|error| error.body_text())
}

fn refused(status: StatusCode, why: &str) -> Response {
    (status, axum::Json(json!({ "error": why }))).into_response()
}

async fn not_found() -> Response {
    refused(StatusCode::NOT_FOUND, "no such path; the page is at `/`")
}

async fn method_not_allowed() -> Response {
    refused(StatusCode::METHOD_NOT_ALLOWED, "method not allowed; read with GET, change with POST")
}

async fn page() -> Response {
    let headers = [(header::CONTENT_TYPE, "text/html; charset=utf-8"), (header::CONTENT_SECURITY_POLICY, &LIVE.policy)];
    (headers, LIVE.html.as_str()).into_response()
}

fn json_text(text: impl Into<Body>) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], text.into()).into_response()
}

#[derive(Deserialize)]
struct HistoryQuery {
    run: Option<String>,
}

async fn history(State(site): State<AppState>, query: Result<Query<HistoryQuery>, QueryRejection>) -> Response {
    let seen = Arc::clone(&site.seen);
    match parameters(query) {
        Ok(HistoryQuery { run: Some(run) }) if run != seen.name() => {
            slowly(&site, move |subject| subject.history_of(&run).map(json_text)).await
        }
        Ok(_) => slowly(&site, move |_| Ok(json_text(seen.history()))).await,
        Err(why) => refused(StatusCode::BAD_REQUEST, &why),
    }
}

async fn runs(State(site): State<AppState>) -> Response {
    slowly(&site, |subject| Ok(axum::Json(subject.runs()))).await
}

async fn config(State(site): State<AppState>) -> Response {
    slowly(&site, |subject| subject.config().map(axum::Json)).await
}

#[derive(Deserialize)]
struct RowsQuery {
    count: Option<usize>,
}

async fn rows(State(site): State<AppState>, query: Result<Query<RowsQuery>, QueryRejection>) -> Response {
    match parameters(query) {
        Ok(RowsQuery { count }) => {
            let count = count.unwrap_or(4).clamp(1, ROWS);
            slowly(&site, move |subject| subject.rows(count).map(axum::Json)).await
        }
        Err(why) => refused(StatusCode::BAD_REQUEST, &why),
    }
}

/// Runs a request that reads files on a blocking thread, one at a time.
async fn slowly<R: IntoResponse + Send + 'static>(
    site: &AppState,
    work: impl FnOnce(&dyn Backend) -> Result<R, ApiError> + Send + 'static,
) -> Response {
    // The wait is short, because a waiting client holds a connection.
    let Ok(Ok(permit)) = timeout(QUEUE_TIME, Arc::clone(&site.slow).acquire_owned()).await else {
        return busy("the server is busy with another request; retry");
    };
    let subject = Arc::clone(&site.subject);
    let done = tokio::task::spawn_blocking(move || {
        let _permit: OwnedSemaphorePermit = permit;
        work(&*subject)
    });
    match done.await {
        Ok(Ok(answer)) => answer.into_response(),
        Ok(Err(error)) => api_error(&error),
        Err(error) => {
            tracing::error!(%error, "server: internal error in a request");
            refused(StatusCode::INTERNAL_SERVER_ERROR, "internal error of the server; the run continues")
        }
    }
}

fn api_error(error: &ApiError) -> Response {
    let status = match error {
        ApiError::Unknown(_) => StatusCode::NOT_FOUND,
        ApiError::Unable(_) => return busy(&error.to_string()),
        ApiError::Wrong(_) => StatusCode::BAD_REQUEST,
    };
    refused(status, &error.to_string())
}

async fn status(State(site): State<AppState>) -> Response {
    let status = serde_json::to_value(site.subject.status());
    let Ok(Value::Object(mut status)) = status else {
        return refused(StatusCode::INTERNAL_SERVER_ERROR, "internal error of the server; the run continues");
    };
    status.insert("watch".to_owned(), json!({ "clients": site.listening() }));
    status.insert("token_needed".to_owned(), json!(site.access.needs_token()));
    status.insert("token_set".to_owned(), json!(site.access.has_token()));
    status.insert("instance".to_owned(), json!(site.seen.instance()));
    axum::Json(status).into_response()
}

async fn scrape(State(site): State<AppState>) -> Response {
    let text = metrics::text(&site.seen, &*site.subject, site.listening());
    ([(header::CONTENT_TYPE, telemetry::prometheus::CONTENT_TYPE)], text).into_response()
}

fn probe(state: Result<(), String>) -> Response {
    match state {
        Ok(()) => (StatusCode::OK, "ok\n").into_response(),
        Err(why) => (StatusCode::SERVICE_UNAVAILABLE, format!("{why}\n")).into_response(),
    }
}

async fn live(State(site): State<AppState>) -> Response {
    probe(site.subject.health().live)
}

async fn ready(State(site): State<AppState>) -> Response {
    probe(site.subject.health().ready)
}

async fn started(State(site): State<AppState>) -> Response {
    probe(site.subject.health().started)
}

async fn checkpoint(State(site): State<AppState>) -> Response {
    run_action(&site, Action::Checkpoint)
}

async fn stop(State(site): State<AppState>) -> Response {
    run_action(&site, Action::Stop)
}

async fn log_level(State(site): State<AppState>, text: Result<String, StringRejection>) -> Response {
    act_with_text(&site, &text, Action::LogLevel)
}

async fn note(State(site): State<AppState>, text: Result<String, StringRejection>) -> Response {
    act_with_text(&site, &text, Action::Note)
}

/// Requests an action that takes a text.
fn act_with_text(site: &AppState, text: &Result<String, StringRejection>, action: fn(String) -> Action) -> Response {
    match text.as_deref().map(str::trim) {
        Ok("") => refused(StatusCode::BAD_REQUEST, "the request body is empty; send the text as the body"),
        Ok(text) => run_action(site, action(text.to_owned())),
        Err(rejection) => refused(rejection.status(), &rejection.body_text()),
    }
}

/// Requests an action. Does not wait for slow requests, because it only records the request.
fn run_action(site: &AppState, action: Action) -> Response {
    match site.subject.execute(action) {
        Ok(done) => axum::Json(json!({ "done": done })).into_response(),
        Err(error) => api_error(&error),
    }
}

#[derive(Deserialize)]
struct EventsQuery {
    after: Option<String>,
}

/// Event stream of one client.
struct Listener {
    site: AppState,
    place: Id,
    changes: watch::Receiver<u64>,
    waiting: std::vec::IntoIter<Message>,
    until: Instant,
    _permit: OwnedSemaphorePermit,
}

/// Streams server-sent events from the position of the client.
async fn events(
    State(site): State<AppState>,
    after: Result<Query<EventsQuery>, QueryRejection>,
    headers: HeaderMap,
) -> Response {
    let after = match parameters(after) {
        Ok(EventsQuery { after }) => after,
        Err(why) => return refused(StatusCode::BAD_REQUEST, &why),
    };
    let Ok(permit) = Arc::clone(&site.listeners).try_acquire_owned() else {
        return busy("the maximum number of event streams is reached; retry later");
    };
    let given = headers.get("last-event-id").and_then(|id| id.to_str().ok()).map(str::to_owned).or(after);
    // A client with an invalid position reloads; a client without a position starts at the newest event.
    let place = match given {
        None => site.seen.live.last(),
        Some(text) => Id::parse(&text).unwrap_or(Id { boot: "".into(), number: 0 }),
    };
    let changes = site.seen.live.changes();
    let until = Instant::now() + LISTEN_TIME;
    let listener = Listener { site, place, changes, waiting: Vec::new().into_iter(), until, _permit: permit };
    let events = stream::unfold(listener, next);
    Stream::new(events).keep_alive(KeepAlive::new().interval(KEEP_ALIVE)).into_response()
}

async fn next(mut listener: Listener) -> Option<(Result<Sse, Infallible>, Listener)> {
    loop {
        if let Some(message) = listener.waiting.next() {
            listener.place.number = message.number;
            let event = Sse::default().id(listener.place.to_string()).data(&*message.line);
            return Some((Ok(event), listener));
        }
        // Before the read, so that an event in between counts as a change.
        listener.changes.mark_unchanged();
        match listener.site.seen.live.since(&listener.place) {
            ReadResult::Messages(messages) if !messages.is_empty() => {
                listener.waiting = messages.into_iter();
                continue;
            }
            ReadResult::Messages(_) => {}
            ReadResult::Lost => {
                listener.place = listener.site.seen.live.last();
                let event = Sse::default().event("reset").id(listener.place.to_string()).data("{}");
                return Some((Ok(event), listener));
            }
        }
        let mut end = listener.site.end.clone();
        tokio::select! {
            changed = listener.changes.changed() => changed.ok()?,
            () = wait(&mut end) => return None,
            // Browsers reconnect at their last position.
            () = sleep_until(listener.until) => return None,
        }
    }
}
