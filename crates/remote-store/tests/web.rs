//! HTTP servers as stores: files, ranges, signed addresses.

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use remote_store::open_with;

use crate::options::options;
use testkit::servers::http::{Request, Response, serve};
use testkit::servers::s3::DATE;

const CONTENT: &[u8] = b"0123456789";

/// Serves one file to requests with the right query, in ranges except at `/plain`.
fn answer(request: &Request) -> Response {
    match &*request.path {
        _ if request.query != "sig=planted%2Fsignature" => Response::new(403, "planted-body"),
        "/data/a%20b/x.txt" => Response::of_content(request, CONTENT).with("etag", "\"tag\""),
        "/data/plain" => Response::new(200, CONTENT).with("last-modified", "Sat, 28 Nov 2026 06:00:00 GMT"),
        "/data/get-only" if request.method == "HEAD" => Response::new(403, ""),
        "/data/get-only" => Response::new(200, CONTENT),
        "/data/loop" => Response::new(302, "").with("location", "/data/loop?sig=planted%2Fsignature"),
        _ => Response::new(404, ""),
    }
}

#[test]
fn files_of_a_server_are_read_with_the_query_of_their_prefix() {
    let address = serve(answer);
    let location = format!("http://{address}/data/?sig=planted%2Fsignature");
    let store = open_with(&location, &options(&address)).expect("opened");
    let name = "a b/x.txt";
    assert_eq!(store.get(name).expect("there"), CONTENT);
    assert_eq!(store.get_range(name, 3..7).expect("there"), b"3456");
    assert_eq!(store.get_range(name, 3..12).expect_err("it ends before").kind(), ErrorKind::UnexpectedEof);
    assert_eq!(store.get_range(name, 5..5).expect("there"), b"");
    let stat = store.head(name).expect("answered").expect("there");
    assert_eq!((stat.bytes, stat.version.to_string()), (10, "tag".to_owned()));
    assert_eq!(store.get_with_stat(name).expect("answered"), Some((CONTENT.to_vec(), stat)));
    assert_eq!(store.head("absent").expect("answered"), None);
    assert_eq!(store.head("get-only").expect("answered").map(|stat| stat.bytes), Some(10));
    let plain = store.head("plain").expect("answered").expect("there");
    assert_eq!(plain.version.to_string(), "Sat, 28 Nov 2026 06:00:00 GMT, 10 bytes");

    let failures = [
        (store.get_range("plain", 3..7).map(drop), ErrorKind::Unsupported, "ignores byte ranges"),
        (store.get("loop").map(drop), ErrorKind::Other, "more than 10 times"),
        (store.list("").map(drop), ErrorKind::Unsupported, "no list of files"),
        (store.put("x", b"1").map(drop), ErrorKind::ReadOnlyFilesystem, "can only be read"),
        (store.put_if_absent("x", b"1").map(drop), ErrorKind::ReadOnlyFilesystem, "can only be read"),
        (store.delete("x"), ErrorKind::ReadOnlyFilesystem, "can only be read"),
    ];
    for (outcome, kind, expected) in failures {
        let error = outcome.expect_err(expected);
        let text = format!("{error} {error:?} {store:?}");
        assert_eq!(error.kind(), kind, "{text}");
        assert!(text.contains(expected) && !text.contains("planted"), "{text}");
        assert!(error.to_string().starts_with(&format!("http://{address}/data")), "{text}");
    }
    let unsigned = open_with(&format!("http://{address}/data"), &options(&address)).expect("opened");
    let error = unsigned.get(name).expect_err("it is not signed");
    assert_eq!(error.kind(), ErrorKind::PermissionDenied);
    assert!(!error.to_string().contains("planted"), "{error}");
}

/// The ranges of a reader must be of one content.
#[test]
fn a_file_that_changes_between_its_ranges_is_refused() {
    let content: Arc<Mutex<Vec<u8>>> = Arc::new(Mutex::new(CONTENT.to_vec()));
    let served = Arc::clone(&content);
    let has_total = Arc::new(AtomicBool::new(true));
    let tells = Arc::clone(&has_total);
    let address = serve(move |request| {
        let mut response = Response::of_content(request, &served.lock().expect("no panic"));
        for (_, value) in response.headers.iter_mut().filter(|_| !tells.load(Ordering::Relaxed)) {
            *value = format!("{}/*", value.split('/').next().expect("a range"));
        }
        response
    });
    let store = open_with(&format!("http://{address}/"), &options(&address)).expect("opened");
    let set = |bytes: &[u8]| *content.lock().expect("no panic") = bytes.to_vec();
    assert_eq!(store.get_range("x", 3..7).expect("there"), b"3456", "no length is known");
    set(b"0123456789ab");
    assert_eq!(store.get_range("x", 3..7).expect("there"), b"3456");
    assert_eq!(store.head("x").expect("answered").expect("there").bytes, 12);
    assert_eq!(store.get_range("x", 3..7).expect("there"), b"3456");
    for (bytes, range, difference) in [
        (&b"0123456789"[..], 3..7, "10 bytes, 12 when its metadata were read"),
        (b"0123456789abcdef", 3..7, "16 bytes, 12 when"),
        (b"01", 3..7, "it is shorter"),
        (b"", 0..7, "it is shorter"),
    ] {
        set(bytes);
        let error = store.get_range("x", range).expect_err("another file");
        assert_eq!(error.kind(), ErrorKind::InvalidData, "{error}");
        let text = error.to_string();
        assert!(text.contains(difference) && text.contains(&address) && text.contains("run the same"), "{text}");
    }
    set(b"012345678");
    assert_eq!(store.get("x").expect("there").len(), 9);
    assert_eq!(store.get_range("x", 3..7).expect("the length is known again"), b"3456");
    has_total.store(false, Ordering::Relaxed);
    set(CONTENT);
    assert_eq!(store.get_range("x", 3..7).expect("the server does not tell the length"), b"3456");
}

/// A file of the same length: only its tag tells.
#[test]
fn a_file_that_another_one_of_its_length_replaces_is_refused() {
    let tag = Arc::new(Mutex::new("\"first\"".to_owned()));
    let served = Arc::clone(&tag);
    let address = serve(move |request| {
        let tag = served.lock().expect("no panic").clone();
        let response = Response::of_content(request, CONTENT).with("last-modified", DATE);
        if tag.is_empty() { response } else { response.with("etag", tag) }
    });
    let store = open_with(&format!("http://{address}/"), &options(&address)).expect("opened");
    store.head("x").expect("answered").expect("there");
    let set = |value: &str| *tag.lock().expect("no panic") = value.to_owned();
    assert_eq!(store.get_range("x", 0..4).expect("there"), b"0123");
    for same in ["W/\"first\"", ""] {
        set(same);
        assert_eq!(store.get_range("x", 0..4).expect("there"), b"0123", "{same}");
    }
    set("\"second\"");
    let error = store.get_range("x", 4..8).expect_err("another file");
    assert_eq!(error.kind(), ErrorKind::InvalidData, "{error}");
    assert!(error.to_string().contains("another tag than when its metadata were read"), "{error}");
    store.head("x").expect("answered").expect("there");
    assert_eq!(store.get_range("x", 4..8).expect("its metadata are new"), b"4567");
}

/// Each text names its cause, and no way out that does not lead out.
#[test]
fn unusable_answers_are_named() {
    let address = serve(|request| match &*request.path {
        "/long" => Response::new(206, [7; 1000]).with("content-range", "bytes 0-3/10"),
        "/file" => Response::new(302, "").with("location", "file:///etc/passwd"),
        _ => Response::new(404, ""),
    });
    let store = open_with(&format!("http://{address}/"), &options(&address)).expect("opened");
    let error = store.get_range("long", 0..4).expect_err("too long");
    assert_eq!(error.kind(), ErrorKind::InvalidData, "{error}");
    assert!(error.to_string().contains("longer than the 4 bytes") && !error.to_string().contains("space"), "{error}");
    let error = store.get("file").expect_err("no address of the web");
    assert!(error.to_string().contains("redirects to `file:`") && !error.to_string().contains("encrypted"), "{error}");
}

/// A name is a part of a URL: its encoding stays as it is.
#[test]
fn an_encoded_name_is_requested_as_it_is() {
    let requested: Arc<Mutex<Vec<String>>> = Arc::default();
    let log = Arc::clone(&requested);
    let address = serve(move |request| {
        log.lock().expect("no panic").push(request.path.clone());
        Response::new(200, CONTENT)
    });
    let store = open_with(&format!("http://{address}/a%20b"), &options(&address)).expect("opened");
    let cases = [
        ("a%20b.txt", "/a%20b/a%20b.txt"),
        ("a b.txt", "/a%20b/a%20b.txt"),
        ("a%2Fb.txt", "/a%20b/a%2Fb.txt"),
        ("100%25.txt", "/a%20b/100%25.txt"),
        ("100%.txt", "/a%20b/100%25.txt"),
        ("%C3%BC.txt", "/a%20b/%C3%BC.txt"),
        // No climbing out of the prefix.
        ("%2E%2E/x.txt", "/a%20b/x.txt"),
    ];
    for (name, expected) in cases {
        store.get(name).expect("there");
        assert_eq!(requested.lock().expect("no panic").pop().as_deref(), Some(expected), "{name}");
        assert_eq!(store.place(name), format!("http://{address}/a%20b/{name}"));
    }
}

#[test]
fn stores_of_a_process_share_connections() {
    const STORES: usize = 40;
    let ports: Arc<Mutex<BTreeSet<u16>>> = Arc::default();
    let log = Arc::clone(&ports);
    let address = serve(move |request| {
        log.lock().expect("no panic").insert(request.client_port);
        Response::of_content(request, CONTENT).with("etag", "\"tag\"").with("last-modified", DATE)
    });
    for location in [format!("http://{address}"), "s3://bucket".to_owned()] {
        for index in 0..STORES {
            let store = open_with(&format!("{location}/{index}"), &options(&address)).expect("opened");
            assert_eq!(store.get("x").expect("there"), CONTENT);
        }
        // A connection is free again shortly after its answer, so some requests need another one.
        let connections = std::mem::take(&mut *ports.lock().expect("no panic")).len();
        assert!(connections <= STORES / 2, "{connections} connections of {STORES} stores");
    }
}
