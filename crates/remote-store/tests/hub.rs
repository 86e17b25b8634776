//! Dataset repositories, against a server in the manner of the Hub that redirects to another port.

use std::io::ErrorKind;
use std::sync::{Arc, Mutex};

use remote_store::{StoreOptions, open_with};

use crate::options::options;
use testkit::servers::http::{Request, Response, serve};

const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";
const LARGE: &[u8] = b"the content of a large file";
const TOKEN: &str = "planted-token";

#[derive(Default)]
struct Log {
    /// Paths that were requested.
    requests: Vec<String>,
    /// Path and authorization of requests to the storage behind the Hub.
    storage: Vec<(String, Option<String>)>,
    /// Requests for the second page that fail.
    failing: usize,
}

struct HubServer {
    log: Arc<Mutex<Log>>,
    address: String,
}

fn start() -> HubServer {
    let log: Arc<Mutex<Log>> = Arc::default();
    let seen = Arc::clone(&log);
    let storage = serve(move |request| {
        let token = request.header("authorization").map(str::to_owned);
        seen.lock().expect("no panic").storage.push((request.path.clone(), token));
        Response::of_content(request, LARGE).with("etag", "\"of the storage\"")
    });
    let seen = Arc::clone(&log);
    let address = serve(move |request| {
        let mut log = seen.lock().expect("no panic");
        log.requests.push(format!("{} {}?{}", request.method, request.path, request.query));
        answer(request, &storage, &mut log.failing)
    });
    HubServer { log, address }
}

fn answer(request: &Request, storage: &str, failing: &mut usize) -> Response {
    let refuse = |status, code: &str| Response::new(status, "planted-body").with("x-error-code", code);
    if request.path.contains("/private/") && request.header("authorization") != Some("Bearer planted-token") {
        return refuse(401, "RepoNotFound");
    }
    if request.path.contains("/gated/") {
        return refuse(403, "GatedRepo");
    }
    let tree = format!("/api/datasets/owner/data/tree/{COMMIT}");
    let large = format!("/datasets/owner/data/resolve/{COMMIT}/train/large%20file.jsonl");
    let stale = format!("/api/datasets/owner/stale/tree/{COMMIT}");
    let small = format!("/datasets/owner/data/resolve/{COMMIT}/README.md");
    match &*request.path {
        "/api/datasets/owner/data/revision/main"
        | "/api/datasets/owner/stale/revision/main"
        | "/api/datasets/owner/endless/revision/main"
        | "/api/datasets/private/data/revision/main" => {
            Response::new(200, format!(r#"{{"id": "owner/data", "sha": "{COMMIT}"}}"#))
        }
        "/api/datasets/owner/data/revision/refs%2Fconvert%2Fparquet" => {
            Response::new(200, format!(r#"{{"sha": "{COMMIT}"}}"#))
        }
        path if path.starts_with("/api/datasets/owner/data/revision/") => refuse(404, "RevisionNotFound"),
        path if path == tree && request.query.contains("cursor") => {
            if *failing > 0 {
                *failing -= 1;
                return Response::new(503, "");
            }
            let page = r#"[{"type": "file", "oid": "c", "size": 130, "path": "train/large file.jsonl",
                            "lfs": {"oid": "sha-of-large", "size": 27, "pointerSize": 130}}]"#;
            Response::new(200, page)
        }
        path if path == tree => {
            let page = r#"[{"type": "file", "oid": "a", "size": 6, "path": "README.md"},
                           {"type": "directory", "oid": "b", "size": 0, "path": "train"}]"#;
            // As a mirror passes it on: of the Hub, which cannot be reached from there.
            let next = format!("<https://hub.invalid{tree}?recursive=true&cursor=2>; rel=\"next\"");
            Response::new(200, page).with("link", next)
        }
        path if path == format!("/api/datasets/owner/endless/tree/{COMMIT}") => {
            let next = format!("<{path}?recursive=true&cursor=2>; rel=\"next\"");
            Response::new(200, r#"[{"type": "file", "oid": "a", "size": 6, "path": "a"}]"#).with("link", next)
        }
        path if path == stale => {
            let file = |name| format!(r#"{{"type": "file", "oid": "{name}", "size": 30, "path": "{name}"}}"#);
            Response::new(200, format!("[{}, {}]", file("b"), file("a")))
        }
        path if path == large || path.starts_with("/datasets/owner/stale/resolve/") => Response::new(302, "")
            .with("location", format!("http://{storage}/blob?X-Signature=planted-signature"))
            .with("x-linked-etag", "\"sha-of-large\""),
        path if path == small => Response::of_content(request, b"readme").with("etag", "\"a\""),
        _ => refuse(404, "EntryNotFound"),
    }
}

fn hub_options(server: &HubServer, token: Option<&str>) -> StoreOptions {
    let mut options = options(&server.address);
    options.environment.insert("HF_ENDPOINT".to_owned(), format!("http://{}", server.address));
    options.environment.extend(token.map(|token| ("HF_TOKEN".to_owned(), token.to_owned())));
    options
}

#[test]
fn files_of_a_dataset_are_those_of_one_commit() {
    let server = start();
    server.log.lock().expect("no panic").failing = 3;
    let store = open_with("hf://datasets/owner/data", &hub_options(&server, Some(TOKEN))).expect("opened");
    assert_eq!(store.place("x"), format!("hf://datasets/owner/data@{COMMIT}/x"));
    let entries = store.list("").expect("listed");
    let found: Vec<_> = entries.iter().map(|entry| (&*entry.name, entry.stat.bytes)).collect();
    assert_eq!(found, [("README.md", 6), ("train/large file.jsonl", 27)]);
    for entry in &entries {
        assert_eq!(store.head(&entry.name).expect("answered").as_ref(), Some(&entry.stat));
        let (bytes, stat) = store.get_with_stat(&entry.name).expect("answered").expect("there");
        assert_eq!((bytes.len() as u64, stat), (entry.stat.bytes, entry.stat.clone()));
    }
    assert_eq!(store.get("train/large file.jsonl").expect("there"), LARGE);
    assert_eq!(store.get_range("train/large file.jsonl", 4..11).expect("there"), b"content");
    assert_eq!(store.list("train").expect("listed").len(), 1);
    assert_eq!(store.head("absent").expect("answered"), None);
    assert_eq!(store.get_range("absent", 0..1).expect_err("absent").kind(), ErrorKind::NotFound);
    assert_eq!(store.put("x", b"1").expect_err("read-only").kind(), ErrorKind::ReadOnlyFilesystem);

    let log = server.log.lock().expect("no panic");
    assert!(log.storage.len() >= 4 && log.storage.iter().all(|(_, token)| token.is_none()), "{:?}", log.storage);
    let first_pages = log.requests.iter().filter(|request| request.ends_with(&format!("tree/{COMMIT}?recursive=true")));
    assert!(first_pages.count() <= 1, "a page that had arrived was read again: {:?}", log.requests);
    assert_eq!(log.requests.iter().filter(|request| request.contains("/revision/")).count(), 1);
    assert!(!format!("{store:?}").contains("planted"), "{store:?}");
}

#[test]
fn a_file_list_without_an_end_is_an_error() {
    let server = start();
    let store = open_with("hf://datasets/owner/endless", &hub_options(&server, None)).expect("opened");
    for _ in 0..2 {
        let error = store.list("").expect_err("it does not end");
        assert_eq!(error.kind(), ErrorKind::InvalidData, "{error}");
        assert!(error.to_string().contains("page 2 leads to an earlier one"), "{error}");
    }
}

/// A mirror may serve another file than the one that it lists.
#[test]
fn a_file_of_another_length_than_the_listed_one_is_refused() {
    let server = start();
    let store = open_with("hf://datasets/owner/stale", &hub_options(&server, None)).expect("opened");
    assert_eq!(store.get_range("a", 4..11).expect("no length is known"), b"content");
    assert_eq!(store.list("").expect("listed").len(), 2);
    for name in ["a", "b"] {
        let error = store.get_range(name, 4..11).expect_err("another file");
        assert_eq!(error.kind(), ErrorKind::InvalidData, "{error}");
        assert!(error.to_string().contains("27 bytes, 30 when its metadata were read"), "{error}");
        assert_eq!(store.head(name).expect("answered").expect("there").bytes, 27);
        assert_eq!(store.get_range(name, 4..11).expect("the metadata are newer"), b"content");
    }
}

#[test]
fn a_prefix_and_a_revision_select_a_part() {
    let server = start();
    let location = "hf://datasets/owner/data@refs/convert/parquet/train";
    let store = open_with(location, &hub_options(&server, None)).expect("opened");
    assert_eq!(store.get("large file.jsonl").expect("there"), LARGE);
    assert_eq!(store.place("x"), format!("hf://datasets/owner/data@{COMMIT}/train/x"));
}

#[test]
fn refusals_name_the_repository_and_the_fix() {
    let server = start();
    let cases = [
        ("hf://datasets/private/data", None, ErrorKind::PermissionDenied, "`private/data`", "set HF_TOKEN"),
        (
            "hf://datasets/private/data",
            Some("planted-other"),
            ErrorKind::PermissionDenied,
            "`private/data`",
            "use a token with access",
        ),
        ("hf://datasets/gated/data", Some(TOKEN), ErrorKind::PermissionDenied, "`gated/data`", "accept its conditions"),
        ("hf://datasets/owner/data@v9", None, ErrorKind::NotFound, "`owner/data`", "no revision `v9`"),
        ("hf://datasets/owner/absent", None, ErrorKind::NotFound, "`owner/absent`", "check the owner and the name"),
    ];
    for (location, token, kind, repository, fix) in cases {
        let error = open_with(location, &hub_options(&server, token)).expect_err(location);
        let text = format!("{error} {error:?}");
        assert_eq!(error.kind(), kind, "{text}");
        assert!(text.contains(repository) && text.contains(fix) && !text.contains("planted"), "{text}");
    }
    open_with("hf://datasets/private/data", &hub_options(&server, Some(TOKEN))).expect("the token is right");
}
