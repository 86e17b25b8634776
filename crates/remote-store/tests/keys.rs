//! Buckets with keys that no request can name.

use remote_store::open_with;

use crate::options::options;
use testkit::LogRecords;
use testkit::servers::s3::S3;

#[test]
fn keys_that_no_request_names_hide_no_other_key() {
    let server = S3::start();
    let readable = ["100%FF.txt", "a&b.txt", "a/b.txt", "c..txt", "ä.txt"];
    let hostile =
        ["/a/b.txt", "../x", "./y", "a//b.txt", "a/../b.txt", "control\u{1}.txt", "end/", "line\n.txt", "zz//"];
    {
        let mut state = server.state();
        let keys = readable.iter().chain(&hostile).map(|name| (format!("runs/{name}"), b"content".to_vec()));
        state.objects.extend(keys);
        // Keys outside of the prefix, and the marker of a folder.
        state.objects.insert("/runs/a/b.txt".to_owned(), b"another".to_vec());
        state.objects.insert("runs/a/".to_owned(), Vec::new());
        state.page = 2;
    }
    let records = LogRecords::default();
    let writer = records.clone();
    let subscriber = tracing_subscriber::fmt().with_writer(move || writer.clone()).with_ansi(false).finish();
    let recorded = tracing::subscriber::set_default(subscriber);
    let store = open_with("s3://bucket/runs", &options(&server.address)).expect("opened");
    for _ in 0..3 {
        let found: Vec<String> = store.list("").expect("listed").into_iter().map(|entry| entry.name).collect();
        assert_eq!(found, readable);
    }
    for name in readable {
        assert_eq!(store.get(name).expect("there"), b"content", "{name}");
    }
    drop(recorded);
    let log = records.text();
    assert_eq!(log.lines().count(), 1, "one warning: {log}");
    for expected in ["WARN", "s3://bucket/runs", "objects=9", "runs/../x", "runs//a/b.txt", "rename them"] {
        assert!(log.contains(expected), "`{expected}` is missing in {log}");
    }
}
