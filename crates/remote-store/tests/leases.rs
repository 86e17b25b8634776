//! Writes below a lock, and what they cost in requests.

use std::io::{ErrorKind, Write as _};
use std::time::Duration;

use remote_store::open_with;
use store::{Holder, LeaseConfig, Lock, Store};

use crate::options::options;
use testkit::servers::s3::S3;

/// No heartbeat is due in a test.
const SLOW: LeaseConfig =
    LeaseConfig { heartbeat_interval: Duration::from_secs(600), takeover_delay: Duration::from_secs(3600) };

fn locked(server: &S3) -> (Store, Lock) {
    let store = open_with("s3://bucket/runs", &options(&server.address)).expect("opened");
    let lock = Lock::acquire(&store, "lock", Holder::this_process(), SLOW).expect("free");
    server.state().requests.clear();
    (store, lock)
}

#[test]
fn each_change_below_a_lock_takes_one_check() {
    let server = S3::start();
    let (store, lock) = locked(&server);
    let guarded = lock.guard(&store);
    for index in 0..10 {
        guarded.put(&format!("a/{index}"), b"1").expect("ours");
    }
    let expected = |index: usize| ["HEAD /bucket/runs/lock?".to_owned(), format!("PUT /bucket/runs/a/{index}?")];
    let requests = std::mem::take(&mut server.state().requests);
    assert_eq!(requests, (0..10).flat_map(expected).collect::<Vec<_>>());

    guarded.put("large", &vec![1; 20 << 20]).expect("ours");
    guarded.delete("a/0").expect("ours");
    let requests = std::mem::take(&mut server.state().requests);
    let checks: Vec<usize> = (0..requests.len()).filter(|&at| requests[at] == "HEAD /bucket/runs/lock?").collect();
    assert_eq!(checks.len(), 2, "{requests:?}");
    assert!(
        requests[checks[0] + 1..].iter().any(|request| request.starts_with("POST") && request.contains("uploadId"))
    );
    assert_eq!(checks[1], requests.len() - 2, "directly before the delete: {requests:?}");
}

/// The upload begins below the lock; another process takes the lock over before it is complete.
#[test]
fn an_upload_that_outlasts_its_lock_is_not_completed() {
    let server = S3::start();
    let (store, lock) = locked(&server);
    let guarded = lock.guard(&store);
    let mut writer = guarded.writer("x").expect("ours");
    writer.write_all(&vec![1; 20 << 20]).expect("written");
    let text = String::from_utf8(store.get("lock").expect("there")).expect("JSON");
    let other =
        text.replace("\"nonce\": \"", "\"nonce\": \"another").replace("\"words\": \"", "\"words\": \"on elsewhere, ");
    store.put("lock", other.as_bytes()).expect("put");
    let error = writer.commit().expect_err("it is no longer ours");
    assert_eq!(error.kind(), ErrorKind::ResourceBusy);
    assert!(error.to_string().contains("on elsewhere"), "{error}");
    assert_eq!(store.head("x").expect("answered"), None);
    assert!(server.state().uploads.is_empty(), "the upload is aborted");

    // From now on the loss is known: nothing is sent any more.
    server.state().requests.clear();
    assert_eq!(guarded.writer("x").expect_err("it is lost").kind(), ErrorKind::ResourceBusy);
    let requests = std::mem::take(&mut server.state().requests);
    assert_eq!(requests, Vec::<String>::new());
}
