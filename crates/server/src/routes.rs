//! What is answered.

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
use crate::broadcast::{Id, Message, Since};
use crate::limits::{ANSWER_TIME, BODY_BYTES, HEAD_TIME, KEEP_ALIVE, LISTEN_TIME, LISTENERS, QUEUE_TIME, ROWS};
use crate::metrics;
use crate::page::LIVE;
use crate::run_state::RunState;
use crate::shutdown::over;

/// Who answers.
#[derive(Clone)]
pub(crate) struct AppState {
    pub(crate) seen: Arc<RunState>,
    pub(crate) subject: Arc<dyn Backend>,
    pub(crate) access: Arc<Access>,
    /// Those that may listen to events. `tower::limit` would count a listener only until its answer begins.
    pub(crate) listeners: Arc<Semaphore>,
    /// What takes long is done one at a time. `tower::limit` would let the next begin when a client leaves or its time is
    /// over, while the thread that works for it still does.
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
        let (listeners, slow) = (Arc::new(Semaphore::new(LISTENERS)), Arc::new(Semaphore::new(1)));
        Self { seen, subject, access: Arc::new(access), listeners, slow, end }
    }

    fn listening(&self) -> usize {
        LISTENERS.saturating_sub(self.listeners.available_permits())
    }
}

/// Everything that is answered.
pub(crate) fn router(site: AppState) -> Router {
    let with_body = Router::new()
        .route("/log-level", post(log_level))
        .route("/note", post(note))
        // The body has to come in the time of a head.
        .layer(TimeoutLayer::with_status_code(StatusCode::REQUEST_TIMEOUT, HEAD_TIME));
    let looked_at = Router::new()
        .route("/", get(page))
        // Browsers ask for one whatever the page says.
        .route("/favicon.ico", get(|| async { StatusCode::NO_CONTENT }))
        .route("/history", get(history))
        .route("/status", get(status))
        .route("/config", get(config))
        .route("/runs", get(runs))
        .route("/rows", get(rows))
        .route("/metrics", get(measured))
        .route("/livez", get(live))
        .route("/readyz", get(ready))
        .route("/startupz", get(started))
        .route("/checkpoint", post(checkpoint))
        .route("/stop", post(stop))
        .layer(TimeoutLayer::with_status_code(StatusCode::GATEWAY_TIMEOUT, ANSWER_TIME));
    looked_at
        .merge(with_body)
        // As long as its client listens.
        .route("/events", get(events))
        .fallback(nothing)
        .method_not_allowed_fallback(other_method)
        .layer(RequestBodyLimitLayer::new(BODY_BYTES))
        .layer(middleware::map_response(explained))
        .layer(middleware::from_fn_with_state(site.clone(), admit))
        .layer(SetMultipleResponseHeadersLayer::overriding(vec![
            fixed(header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
            fixed(header::REFERRER_POLICY, "no-referrer"),
            fixed(HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
        ]))
        .layer(SetMultipleResponseHeadersLayer::if_not_present(vec![
            fixed(header::CACHE_CONTROL, "no-store"),
            // Of an answer that is opened as a page nothing is obeyed.
            fixed(header::CONTENT_SECURITY_POLICY, "default-src 'none'; frame-ancestors 'none'"),
        ]))
        .with_state(site)
}

fn fixed(name: HeaderName, value: &'static str) -> HeaderMetadata<Response> {
    (name, HeaderValue::from_static(value)).into()
}

/// Judges before anything is done.
async fn admit(State(site): State<AppState>, request: Request, next: Next) -> Response {
    match judged(&site, &request) {
        Ok(()) => next.run(request).await,
        Err(Refusal { status, why }) => refused(status, &why),
    }
}

/// Words for the refusals of layers, which have a status alone.
async fn explained(response: Response) -> Response {
    match response.status() {
        status @ StatusCode::PAYLOAD_TOO_LARGE => {
            refused(status, &format!("the body is longer than {BODY_BYTES} bytes"))
        }
        status @ StatusCode::REQUEST_TIMEOUT => refused(status, "the body did not come"),
        StatusCode::GATEWAY_TIMEOUT => busy("it took too long; ask again"),
        _ => response,
    }
}

/// Whether a request is answered, or how it is refused. What nobody may ask for needs no token to hear so.
fn judged(site: &AppState, request: &Request) -> Result<(), Refusal> {
    let (path, headers) = (request.uri().path(), request.headers());
    let action = path.strip_prefix('/').filter(|name| Action::NAMES.contains(name));
    match (request.method(), action) {
        (&Method::GET | &Method::HEAD, _) if path == "/rows" => site.access.judge(headers, Purpose::Corpus),
        (&Method::POST, Some(action)) => {
            site.access.judge(headers, Purpose::Look)?;
            if !site.subject.actions().contains(&action) {
                let why = format!("`{action}` cannot be asked of this");
                return Err(Refusal { status: StatusCode::NOT_FOUND, why });
            }
            site.access.judge(headers, Purpose::Change)
        }
        _ => site.access.judge(headers, Purpose::Look),
    }
}

/// Others are being answered.
fn busy(why: &str) -> Response {
    let mut response = refused(StatusCode::SERVICE_UNAVAILABLE, why);
    response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("5"));
    response
}

/// What was asked for behind a `?`.
fn asked<T>(query: Result<Query<T>, QueryRejection>) -> Result<T, String> {
    query.map(|Query(asked)| asked).map_err(|error| error.body_text())
}

fn refused(status: StatusCode, why: &str) -> Response {
    (status, axum::Json(json!({ "error": why }))).into_response()
}

async fn nothing() -> Response {
    refused(StatusCode::NOT_FOUND, "nothing is here; the page is at `/`")
}

async fn other_method() -> Response {
    refused(StatusCode::METHOD_NOT_ALLOWED, "look with GET, change with POST")
}

async fn page() -> Response {
    let headers = [(header::CONTENT_TYPE, "text/html; charset=utf-8"), (header::CONTENT_SECURITY_POLICY, &LIVE.policy)];
    (headers, LIVE.html.as_str()).into_response()
}

fn json_text(text: impl Into<Body>) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], text.into()).into_response()
}

#[derive(Deserialize)]
struct Which {
    run: Option<String>,
}

async fn history(State(site): State<AppState>, which: Result<Query<Which>, QueryRejection>) -> Response {
    let seen = Arc::clone(&site.seen);
    match asked(which) {
        Ok(Which { run: Some(run) }) if run != seen.name() => {
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
struct HowMany {
    count: Option<usize>,
}

async fn rows(State(site): State<AppState>, how_many: Result<Query<HowMany>, QueryRejection>) -> Response {
    match asked(how_many) {
        Ok(HowMany { count }) => {
            let count = count.unwrap_or(4).clamp(1, ROWS);
            slowly(&site, move |subject| subject.rows(count).map(axum::Json)).await
        }
        Err(why) => refused(StatusCode::BAD_REQUEST, &why),
    }
}

/// Does what reads files on a thread that may wait, one at a time.
async fn slowly<R: IntoResponse + Send + 'static>(
    site: &AppState,
    work: impl FnOnce(&dyn Backend) -> Result<R, ApiError> + Send + 'static,
) -> Response {
    // Nobody queues for long: who is told to come again holds no connection meanwhile.
    let Ok(Ok(permit)) = timeout(QUEUE_TIME, Arc::clone(&site.slow).acquire_owned()).await else {
        return busy("others are being answered; ask again");
    };
    let subject = Arc::clone(&site.subject);
    let done = tokio::task::spawn_blocking(move || {
        let _permit: OwnedSemaphorePermit = permit;
        work(&*subject)
    });
    match done.await {
        Ok(Ok(answer)) => answer.into_response(),
        Ok(Err(trouble)) => troubled(&trouble),
        Err(error) => {
            tracing::error!(%error, "internal error while something was looked at");
            refused(StatusCode::INTERNAL_SERVER_ERROR, "an internal error; the run continues")
        }
    }
}

fn troubled(trouble: &ApiError) -> Response {
    let status = match trouble {
        ApiError::Unknown(_) => StatusCode::NOT_FOUND,
        ApiError::Unable(_) => return busy(&trouble.to_string()),
        ApiError::Wrong(_) => StatusCode::BAD_REQUEST,
    };
    refused(status, &trouble.to_string())
}

async fn status(State(site): State<AppState>) -> Response {
    let status = serde_json::to_value(site.subject.status());
    let Ok(Value::Object(mut status)) = status else {
        return refused(StatusCode::INTERNAL_SERVER_ERROR, "an internal error; the run continues");
    };
    status.insert("watch".to_owned(), json!({ "clients": site.listening() }));
    status.insert("token_needed".to_owned(), json!(site.access.needs_token()));
    status.insert("token_set".to_owned(), json!(site.access.has_token()));
    status.insert("instance".to_owned(), json!(site.seen.instance()));
    axum::Json(status).into_response()
}

async fn measured(State(site): State<AppState>) -> Response {
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
    act(&site, Action::Checkpoint)
}

async fn stop(State(site): State<AppState>) -> Response {
    act(&site, Action::Stop)
}

async fn log_level(State(site): State<AppState>, text: Result<String, StringRejection>) -> Response {
    worded(&site, &text, Action::LogLevel)
}

async fn note(State(site): State<AppState>, text: Result<String, StringRejection>) -> Response {
    worded(&site, &text, Action::Note)
}

/// An action that has a text.
fn worded(site: &AppState, text: &Result<String, StringRejection>, action: fn(String) -> Action) -> Response {
    match text.as_deref().map(str::trim) {
        Ok("") => refused(StatusCode::BAD_REQUEST, "the body is empty; it is the text"),
        Ok(text) => act(site, action(text.to_owned())),
        Err(rejection) => refused(rejection.status(), &rejection.body_text()),
    }
}

/// At once, whoever else is being answered: it only says what is to be done.
fn act(site: &AppState, action: Action) -> Response {
    match site.subject.act(action) {
        Ok(done) => axum::Json(json!({ "done": done })).into_response(),
        Err(trouble) => troubled(&trouble),
    }
}

#[derive(Deserialize)]
struct After {
    after: Option<String>,
}

/// A client that listens.
struct Listener {
    site: AppState,
    place: Id,
    changes: watch::Receiver<u64>,
    waiting: std::vec::IntoIter<Message>,
    until: Instant,
    _permit: OwnedSemaphorePermit,
}

/// Server-sent events, from where the client was.
async fn events(
    State(site): State<AppState>,
    after: Result<Query<After>, QueryRejection>,
    headers: HeaderMap,
) -> Response {
    let after = match asked(after) {
        Ok(After { after }) => after,
        Err(why) => return refused(StatusCode::BAD_REQUEST, &why),
    };
    let Ok(permit) = Arc::clone(&site.listeners).try_acquire_owned() else {
        return busy("too many listen already");
    };
    let given = headers.get("last-event-id").and_then(|id| id.to_str().ok()).map(str::to_owned).or(after);
    // Who gives a place that is none starts over; who gives none begins now.
    let place = match given {
        None => site.seen.live.last(),
        Some(text) => Id::parse(&text).unwrap_or(Id { boot: "".into(), number: 0 }),
    };
    let changes = site.seen.live.changes();
    let until = Instant::now() + LISTEN_TIME;
    let listener = Listener { site, place, changes, waiting: Vec::new().into_iter(), until, _permit: permit };
    let said = stream::unfold(listener, next);
    Stream::new(said).keep_alive(KeepAlive::new().interval(KEEP_ALIVE)).into_response()
}

async fn next(mut listener: Listener) -> Option<(Result<Sse, Infallible>, Listener)> {
    loop {
        if let Some(message) = listener.waiting.next() {
            listener.place.number = message.number;
            let event = Sse::default().id(listener.place.to_string()).data(&*message.line);
            return Some((Ok(event), listener));
        }
        // Before the look: what is said between the two is a change.
        listener.changes.mark_unchanged();
        match listener.site.seen.live.since(&listener.place) {
            Since::Messages(messages) if !messages.is_empty() => {
                listener.waiting = messages.into_iter();
                continue;
            }
            Since::Messages(_) => {}
            Since::Lost => {
                listener.place = listener.site.seen.live.last();
                let event = Sse::default().event("reset").id(listener.place.to_string()).data("{}");
                return Some((Ok(event), listener));
            }
        }
        let mut end = listener.site.end.clone();
        tokio::select! {
            changed = listener.changes.changed() => changed.ok()?,
            () = over(&mut end) => return None,
            // Browsers come back by themselves, to where they were.
            () = sleep_until(listener.until) => return None,
        }
    }
}
