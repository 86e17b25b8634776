//! Servers that restart, ask for a pause, or answer without end: waits have bounds.

use std::io::ErrorKind;
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use remote_store::{StoreOptions, open_with};
use store::Retries;
use testkit::servers::http::{Response, serve};

use crate::options::options;
use crate::raw;

/// Locations of the same server as a bucket and as a web server.
fn locations(address: &str) -> [String; 2] {
    ["s3://bucket/runs".to_owned(), format!("http://{address}")]
}

#[test]
fn a_server_that_restarts_is_waited_for() {
    let pause = Duration::from_millis(50);
    for index in 0..2 {
        let (listener, address) = raw::bind();
        let write = |stream: &mut TcpStream| assert!(raw::send(stream, raw::ANSWER));
        raw::answer(listener, 1, write);
        let retries = Retries { attempts_max: 100, pause, pause_max: pause, ..Retries::default() };
        let options = StoreOptions { retries, ..options(&address) };
        let store = open_with(&locations(&address)[index], &options).expect("opened");
        assert_eq!(store.get("x").expect("answered"), b"x");
        let stopped = store.clone().with_retries(Retries { attempts_max: 3, ..retries });
        let error = stopped.get("x").expect_err("the port is closed");
        assert!(error.to_string().contains("(3 times in a row)"), "{error}");
        let restart = move || {
            thread::sleep(Duration::from_millis(300));
            raw::answer(TcpListener::bind(address).expect("free again"), 1, write);
        };
        let restart = thread::Builder::new().spawn(restart).expect("started");
        assert_eq!(store.get("x").expect("it answers again"), b"x");
        restart.join().expect("no panic");
    }
}

#[test]
fn a_pause_that_a_server_asks_for_is_kept() {
    for index in 0..2 {
        let count = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&count);
        let address = serve(move |request| match counter.fetch_add(1, Ordering::Relaxed) {
            0 => Response::new(429, "").with("retry-after", "1"),
            1 => Response::new(503, "")
                .with("date", "Sat, 28 Nov 2026 06:00:00 GMT")
                .with("retry-after", "Sat, 28 Nov 2026 06:00:01 GMT"),
            _ => Response::of_content(request, b"x")
                .with("etag", "\"tag\"")
                .with("last-modified", testkit::servers::s3::DATE),
        });
        let store = open_with(&locations(&address)[index], &options(&address)).expect("opened");
        let begun = Instant::now();
        assert_eq!(store.get("x").expect("the third answer is good"), b"x");
        assert!(begun.elapsed() >= Duration::from_secs(2), "{:?}", begun.elapsed());
        assert_eq!(count.load(Ordering::Relaxed), 3, "no request within the pauses");
    }
}

/// Options of one attempt with a short limit.
fn impatient(address: &str) -> StoreOptions {
    let options = options(address);
    let retries = Retries { attempts_max: 1, ..options.retries };
    StoreOptions { stall_timeout: Duration::from_millis(400), retries, ..options }
}

#[test]
fn an_error_answer_without_an_end_is_read_in_part() {
    for index in 0..2 {
        let (listener, address) = raw::bind();
        raw::answer(listener, 1, |stream| {
            raw::send(stream, "HTTP/1.1 500 X\r\nconnection: close\r\n\r\n<Error><Code>InternalError</Code>");
            let block = " ".repeat(1 << 16);
            while raw::send(stream, &block) {}
        });
        let options = StoreOptions { stall_timeout: Duration::from_secs(20), ..impatient(&address) };
        let store = open_with(&locations(&address)[index], &options).expect("opened");
        let begun = Instant::now();
        let error = store.get("x").expect_err("an error answer");
        assert_eq!(error.kind(), ErrorKind::WouldBlock, "{error}");
        assert!(error.to_string().contains("the server answered 500"), "{error}");
        assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    }
}

/// Forty bytes a second, of a hundred thousand.
#[test]
fn single_bytes_are_no_progress() {
    for index in 0..2 {
        let (listener, address) = raw::bind();
        raw::answer(listener, 1, |stream| {
            raw::send(stream, &raw::ANSWER.replace("content-length: 1", "content-length: 100000"));
            while raw::send(stream, "x") {
                thread::sleep(Duration::from_millis(25));
            }
        });
        let store = open_with(&locations(&address)[index], &impatient(&address)).expect("opened");
        let error = store.get("x").expect_err("too slow");
        assert_eq!(error.kind(), ErrorKind::TimedOut, "{error}");
        let text = error.to_string();
        assert!(text.contains("only ") && text.contains("bytes arrived within 0.4 s"), "{text}");
    }
}

/// The bound is of all attempts together: ten of them would take ten times as long.
#[test]
fn a_store_that_never_answers_ends_a_call_soon() {
    for index in 0..2 {
        let (listener, address) = raw::bind();
        raw::answer(listener, 100, |_| thread::sleep(Duration::from_secs(60)));
        let stall_timeout = Duration::from_millis(300);
        let retries = Retries { within: stall_timeout, ..options(&address).retries };
        let options = StoreOptions { stall_timeout, retries, ..options(&address) };
        let store = open_with(&locations(&address)[index], &options).expect("opened");
        let begun = Instant::now();
        let outcomes = [store.get("x").map(drop), store.get_range("x", 0..9).map(drop)];
        for outcome in outcomes {
            let error = outcome.expect_err("it never answers");
            assert_eq!(error.kind(), ErrorKind::TimedOut, "{error}");
        }
        let most = 2 * 3 * stall_timeout + Duration::from_secs(1);
        assert!(begun.elapsed() < most, "{:?}", begun.elapsed());
    }
}

/// Pages with the same token, and with new tokens and the same object.
#[test]
fn a_list_without_an_end_is_an_error() {
    for is_new in [false, true] {
        let count = AtomicUsize::new(0);
        let address = serve(move |_| {
            let page = count.fetch_add(1, Ordering::Relaxed);
            let (key, token) = if is_new { (0, page) } else { (page, 0) };
            let entry = format!(
                "<Contents><Key>runs/{key:09}</Key><Size>1</Size><ETag>tag</ETag>\
                 <LastModified>2026-11-28T06:00:00.000Z</LastModified></Contents>"
            );
            Response::new(
                200,
                format!(
                    "<ListBucketResult><IsTruncated>true</IsTruncated>\
                     <NextContinuationToken>{token}</NextContinuationToken>{entry}</ListBucketResult>"
                ),
            )
        });
        let store = open_with("s3://bucket/runs", &options(&address)).expect("opened");
        let error = store.list("").expect_err("it does not end");
        assert_eq!(error.kind(), ErrorKind::InvalidData, "{error}");
        assert!(error.to_string().contains("the list of objects does not end: its page 2 repeats"), "{error}");
    }
}
