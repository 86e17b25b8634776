//! S3 server in memory with injected faults: conditional puts, multipart uploads, ranges, pages.
//!
//! A version derives from the content, as on the real service.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::{Arc, Mutex, MutexGuard};

use super::http::{self, Delivery, Request, Response, decoded};

/// Time of the last write of every object.
pub const DATE: &str = "Sat, 28 Nov 2026 06:00:00 GMT";
const BUCKET: &str = "/bucket";

/// Fault of a request.
#[derive(Clone, Copy, Debug)]
pub enum Fault {
    /// Answer with this status, without an effect.
    Status(u16),
    /// The request has its effect; its answer is delivered so.
    Deliver(Delivery),
}

/// Secret key of the tests. No output may contain it.
const SECRET: &str = "planted-secret-key";

/// Returns the environment of a program that uses the server at that address.
pub fn environment(address: &str) -> BTreeMap<String, String> {
    let variables = [
        ("AWS_ACCESS_KEY_ID", "planted-access-key"),
        ("AWS_SECRET_ACCESS_KEY", SECRET),
        ("AWS_SESSION_TOKEN", "planted-session-token"),
        ("AWS_ENDPOINT_URL", &format!("http://{address}")),
        ("AWS_ALLOW_HTTP", "true"),
        ("AWS_REGION", "us-east-1"),
    ];
    variables.map(|(name, value)| (name.to_owned(), value.to_owned())).into()
}

type Faults = dyn FnMut(&Request) -> Option<Fault> + Send;

/// Server. Clones share the state.
#[derive(Clone)]
pub struct S3 {
    state: Arc<Mutex<State>>,
    /// Address of the server, without a scheme.
    pub address: String,
}

/// Objects and requests of a server.
pub struct State {
    /// Objects, by key.
    pub objects: BTreeMap<String, Vec<u8>>,
    /// Unfinished uploads, by id.
    pub uploads: BTreeMap<String, Upload>,
    /// Uploads that were begun.
    begun: usize,
    /// Requests in the order of their arrival: method, path and query.
    pub requests: Vec<String>,
    /// Most objects of a page of a list.
    pub page: usize,
    /// Header with a condition that the server ignores, in lower case; may be empty.
    pub ignored: &'static str,
    faults: Box<Faults>,
}

/// Unfinished upload.
#[derive(Default)]
pub struct Upload {
    key: String,
    /// Parts, by number.
    pub parts: BTreeMap<usize, Vec<u8>>,
}

impl S3 {
    /// Starts a server without objects.
    pub fn start() -> Self {
        Self::start_with(|_| ())
    }

    /// Starts a server that calls a function before it answers a request. The function may wait, because requests of
    /// other connections are answered meanwhile.
    pub fn start_with(before: impl Fn(&Request) + Send + Sync + 'static) -> Self {
        let state = State {
            objects: BTreeMap::new(),
            uploads: BTreeMap::new(),
            begun: 0,
            requests: Vec::new(),
            page: 1000,
            ignored: "",
            faults: Box::new(|_| None),
        };
        let state = Arc::new(Mutex::new(state));
        let shared = Arc::clone(&state);
        let address = http::serve(move |request| {
            before(request);
            shared.lock().expect("no panic").answer(request)
        });
        Self { state, address }
    }

    /// Locks the state. Requests wait meanwhile.
    pub fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no panic")
    }

    /// Sets the function that chooses the fault of each request.
    pub fn set_faults(&self, faults: impl FnMut(&Request) -> Option<Fault> + Send + 'static) {
        self.state().faults = Box::new(faults);
    }
}

impl State {
    fn answer(&mut self, request: &Request) -> Response {
        self.requests.push(format!("{} {}?{}", request.method, request.path, request.query));
        match (self.faults)(request) {
            Some(Fault::Status(status)) => {
                Response::new(status, "<Error><Code>SlowDown</Code><Message>planted-message</Message></Error>")
            }
            Some(Fault::Deliver(delivery)) => Response { delivery, ..self.apply(request) },
            None => self.apply(request),
        }
    }

    fn apply(&mut self, request: &Request) -> Response {
        let key = decoded(request.path.strip_prefix(BUCKET).expect("the bucket").trim_start_matches('/'));
        let upload = request.parameter("uploadId");
        match (&*request.method, upload) {
            ("GET", _) if key.is_empty() => self.list(request),
            ("GET" | "HEAD", _) => self.get(request, &key),
            ("PUT", Some(id)) => self.put_part(request, &id),
            ("PUT", None) => self.put(request, key),
            ("POST", Some(id)) => self.complete(&id),
            ("POST", None) if key.is_empty() => self.delete_all(request),
            ("POST", None) => {
                self.begun += 1;
                let id = format!("upload-{}", self.begun);
                let body =
                    format!("<InitiateMultipartUploadResult><UploadId>{id}</UploadId></InitiateMultipartUploadResult>");
                self.uploads.insert(id, Upload { key, parts: BTreeMap::new() });
                Response::new(200, body)
            }
            ("DELETE", Some(id)) => Response::new(if self.uploads.remove(&id).is_some() { 204 } else { 404 }, ""),
            ("DELETE", None) => {
                self.objects.remove(&key);
                Response::new(204, "")
            }
            (method, _) => panic!("{method} is not a request of S3"),
        }
    }

    fn get(&self, request: &Request, key: &str) -> Response {
        let Some(content) = self.objects.get(key) else { return error(404, "NoSuchKey") };
        Response::of_content(request, content).with("etag", e_tag(content)).with("last-modified", DATE)
    }

    fn put(&mut self, request: &Request, key: String) -> Response {
        let found = self.objects.get(&key).map(|content| e_tag(content));
        let condition = |name: &str| request.header(name).filter(|_| name != self.ignored);
        let is_met = match (condition("if-none-match"), condition("if-match")) {
            (Some("*"), None) => found.is_none(),
            (None, Some(_)) if found.is_none() => return error(404, "NoSuchKey"),
            (None, Some(tag)) => found.as_deref() == Some(tag),
            (None, None) => true,
            other => panic!("{other:?}"),
        };
        if !is_met {
            return error(412, "PreconditionFailed");
        }
        let tag = e_tag(&request.body);
        self.objects.insert(key, request.body.clone());
        Response::new(200, "").with("etag", tag)
    }

    fn put_part(&mut self, request: &Request, id: &str) -> Response {
        let Some(upload) = self.uploads.get_mut(id) else { return error(404, "NoSuchUpload") };
        let number = request.parameter("partNumber").expect("a number").parse().expect("a number");
        upload.parts.insert(number, request.body.clone());
        Response::new(200, "").with("etag", e_tag(&request.body))
    }

    fn complete(&mut self, id: &str) -> Response {
        let Some(upload) = self.uploads.remove(id) else { return error(404, "NoSuchUpload") };
        let numbers: Vec<_> = upload.parts.keys().copied().collect();
        assert_eq!(numbers, (1..=numbers.len()).collect::<Vec<_>>(), "parts are missing");
        let content = upload.parts.into_values().collect::<Vec<_>>().concat();
        let tag = e_tag(&content);
        self.objects.insert(upload.key, content);
        let result = format!("<CompleteMultipartUploadResult><ETag>{tag}</ETag></CompleteMultipartUploadResult>");
        Response::new(200, result)
    }

    fn delete_all(&mut self, request: &Request) -> Response {
        let body = String::from_utf8(request.body.clone()).expect("text");
        for key in body.split("<Key>").skip(1) {
            self.objects.remove(key.split("</Key>").next().expect("an end"));
        }
        Response::new(200, "<DeleteResult></DeleteResult>")
    }

    fn list(&self, request: &Request) -> Response {
        let prefix = request.parameter("prefix").unwrap_or_default();
        let after = request.parameter("continuation-token").or_else(|| request.parameter("start-after"));
        let after = after.unwrap_or_default();
        let found = self.objects.iter().filter(|(key, _)| key.starts_with(&prefix) && **key > after);
        let mut page: Vec<_> = found.take(self.page + 1).collect();
        let is_truncated = page.len() > self.page;
        page.truncate(self.page);
        let mut body = format!("<ListBucketResult><IsTruncated>{is_truncated}</IsTruncated>");
        if is_truncated {
            let _ = write!(body, "<NextContinuationToken>{}</NextContinuationToken>", escaped(page[self.page - 1].0));
        }
        for (key, content) in page {
            let _ = write!(
                body,
                "<Contents><Key>{}</Key><Size>{}</Size><ETag>{}</ETag>\
                 <LastModified>2026-11-28T06:00:00.000Z</LastModified></Contents>",
                escaped(key),
                content.len(),
                e_tag(content)
            );
        }
        Response::new(200, body + "</ListBucketResult>")
    }
}

/// Returns a text as XML.
fn escaped(text: &str) -> String {
    let escape = |char: char| match char {
        '&' | '<' | '>' | '\0'..='\x1f' => format!("&#x{:x};", u32::from(char)),
        char => char.to_string(),
    };
    text.chars().map(escape).collect()
}

pub(super) fn e_tag(content: &[u8]) -> String {
    format!("\"{}\"", &blake3::hash(content).to_hex()[..32])
}

fn error(status: u16, code: &str) -> Response {
    Response::new(status, format!("<Error><Code>{code}</Code></Error>"))
}
