//! Large objects, killed writers, and long listings.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use remote_store::open_with;
use store::Store;

use crate::options::options;
use testkit::servers::http::Delivery;
use testkit::servers::s3::{Fault, S3};

const MEBIBYTE: usize = 1 << 20;

fn opened(server: &S3) -> Store {
    open_with("s3://bucket/runs", &options(&server.address)).expect("opened")
}

fn content(bytes: usize) -> Vec<u8> {
    (0..=250).cycle().take(bytes).collect()
}

/// Writes objects around the sizes of parts, as a stream and at once.
pub(crate) fn objects_around_the_size_of_a_part_arrive(store: &Store) {
    for bytes in [8 * MEBIBYTE - 1, 8 * MEBIBYTE, 8 * MEBIBYTE + 1, 16 * MEBIBYTE, 21 * MEBIBYTE + 5] {
        let content = content(bytes);
        store.put("at-once", &content).expect("put");
        let mut writer = store.writer("streamed").expect("begun");
        for piece in content.chunks(300_007) {
            writer.write_all(piece).expect("written");
        }
        assert_eq!(writer.commit().expect("committed").bytes, bytes as u64);
        for name in ["at-once", "streamed"] {
            assert_eq!(store.hash(name, bytes as u64).expect("there"), blake3::hash(&content), "{name}: {bytes} bytes");
            assert_eq!(store.head(name).expect("answered").expect("there").bytes, bytes as u64);
        }
    }
}

#[test]
fn objects_around_the_size_of_a_part_arrive_whole() {
    let server = S3::start();
    objects_around_the_size_of_a_part_arrive(&opened(&server));
    let state = server.state();
    assert!(state.uploads.is_empty(), "an upload is left");
    // A small object needs one request.
    let multipart = state.requests.iter().filter(|request| request.starts_with("POST") && request.contains("?uploads"));
    assert_eq!(multipart.count(), 6, "three sizes, twice");
}

#[test]
fn a_writer_that_stops_leaves_nothing_visible_and_aborts_its_upload() {
    let server = S3::start();
    let store = opened(&server);
    let mut writer = store.writer("x").expect("begun");
    writer.write_all(&content(20 * MEBIBYTE)).expect("written");
    assert_eq!(server.state().uploads.len(), 1);
    assert_eq!(store.head("x").expect("answered"), None);
    assert_eq!(store.list("").expect("listed"), []);
    drop(writer);
    assert!(server.state().uploads.is_empty(), "the upload was not aborted");

    // A killed writer aborts nothing: its parts are in no listing, and the next writer is not disturbed.
    let mut killed = store.writer("x").expect("begun");
    killed.write_all(&content(20 * MEBIBYTE)).expect("written");
    std::mem::forget(killed);
    assert_eq!(store.head("x").expect("answered"), None);
    assert_eq!(store.list("").expect("listed"), []);
    assert_eq!(store.sweep().expect("answered"), Vec::<String>::new());
    store.put("x", &content(9 * MEBIBYTE)).expect("put");
    assert_eq!(store.head("x").expect("answered").expect("there").bytes, 9 << 20);
    assert_eq!(server.state().uploads.len(), 1, "the upload of another writer was aborted");
}

/// The completion has its effect, its answer is lost, and the repetition finds no upload.
#[test]
fn a_lost_answer_to_the_completion_is_no_error() {
    let server = S3::start();
    let store = opened(&server);
    let once = Arc::new(AtomicBool::new(true));
    server.set_faults(move |request| {
        let completes = request.method == "POST" && request.query.contains("uploadId");
        (completes && once.swap(false, Ordering::Relaxed)).then_some(Fault::Deliver(Delivery::Lost))
    });
    let content = content(9 * MEBIBYTE);
    let stat = store.put("x", &content).expect("put");
    assert_eq!(store.head("x").expect("answered").expect("there").version, stat.version);
    let completions = |state: &testkit::servers::s3::State| {
        state.requests.iter().filter(|request| request.starts_with("POST") && request.contains("uploadId")).count()
    };
    assert_eq!(completions(&server.state()), 2);

    // If the content is another one, the completion did not happen.
    server.set_faults(|request| {
        let completes = request.method == "POST" && request.query.contains("uploadId");
        completes.then_some(Fault::Status(404))
    });
    let mut writer = store.writer("x").expect("begun");
    writer.write_all(&vec![1; 9 * MEBIBYTE]).expect("written");
    writer.commit().expect_err("the upload is gone");
    assert_eq!(store.hash("x", 9 << 20).expect("there"), blake3::hash(&content));
}

/// Every third request of a part fails before or after its effect.
#[test]
fn parts_are_sent_again_after_faults() {
    let server = S3::start();
    let mut count = 0;
    server.set_faults(move |request| {
        count += usize::from(request.query.contains("partNumber"));
        match (request.query.contains("partNumber"), count % 3) {
            (true, 1) => Some(Fault::Status(503)),
            (true, 2) => Some(Fault::Deliver(Delivery::Lost)),
            _ => None,
        }
    });
    let store = opened(&server);
    let content = content(41 * MEBIBYTE);
    store.put("x", &content).expect("put");
    assert_eq!(store.hash("x", content.len() as u64).expect("there"), blake3::hash(&content));
}

#[test]
fn a_long_list_is_read_by_pages_once_each() {
    const OBJECTS: usize = 100_000;
    let server = S3::start();
    server.state().objects.extend((0..OBJECTS).map(|at| (format!("runs/{:03}/{at:06}", at % 500), vec![1])));
    server.state().objects.insert("runs/007".to_owned(), Vec::new());
    let store = opened(&server);
    // Every tenth page fails once; the listing continues behind the pages that arrived.
    let mut count = 0;
    server.set_faults(move |_| {
        count += 1;
        (count % 10 == 5).then_some(Fault::Status(503))
    });
    let entries = store.list("").expect("listed");
    assert_eq!(entries.len(), OBJECTS, "the marker of a folder is no object");
    assert!(entries.is_sorted_by(|a, b| a.name < b.name));
    assert_eq!(entries[0].name, "000/000000");
    let requests = server.state().requests.len();
    assert!((101..=115).contains(&requests), "{requests} requests for 101 pages");
    assert_eq!(store.list("007").expect("listed").len(), OBJECTS / 500);
}
