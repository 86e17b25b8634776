//! Tests of the protocol with a socket of the test.

use super::*;

/// Socket of a service manager.
struct Listener(UnixDatagram);

impl Listener {
    fn received(&self) -> Vec<String> {
        let mut buffer = [0; 4096];
        let next = || {
            let length = self.0.recv(&mut buffer).ok()?;
            Some(String::from_utf8(buffer[..length].to_vec()).expect("UTF-8"))
        };
        std::iter::from_fn(next).collect()
    }
}

fn bound(address: &SocketAddr) -> Listener {
    let socket = UnixDatagram::bind_addr(address).expect("its own socket");
    socket.set_nonblocking(true).expect("it is a socket");
    Listener(socket)
}

fn asked(socket: &str, watchdog_us: Option<u64>) -> Notify {
    let watchdog_us = watchdog_us.map(|us| us.to_string());
    Notify::from_cause(&NotifyVariables { socket: Some(socket.into()), watchdog_us, watchdog_pid: None })
}

/// Returns a listener at a path, and its client.
fn listener(watchdog_us: Option<u64>) -> (Listener, Notify, tempfile::TempDir) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("notify");
    let listener = bound(&SocketAddr::from_pathname(&path).expect("short"));
    (listener, asked(path.to_str().expect("UTF-8"), watchdog_us), folder)
}

#[test]
fn messages_are_sent_in_order_and_readiness_once() {
    let (listener, notify, _folder) = listener(Some(1_000_000));
    notify.beat("start", true);
    notify.ready();
    notify.ready();
    notify.progress("step 3 of 60".to_owned());
    notify.stopping();
    assert_eq!(listener.received(), ["STATUS=start", "WATCHDOG=1", "READY=1", "STOPPING=1"]);
    // A status is sent at most once a second.
    notify.beat("step", false);
    assert_eq!(listener.received(), Vec::<String>::new());
    std::thread::sleep(STATUS_EVERY);
    notify.beat("step", false);
    notify.beat("step", false);
    assert_eq!(listener.received(), ["STATUS=step: step 3 of 60"], "no progress, no watchdog message");
    assert_eq!(notify.complaint(), None);
}

#[test]
fn a_reload_restores_readiness_only_if_it_was_ready() {
    let (listener, notify, _folder) = listener(None);
    assert_eq!(notify.reload(|| 1), 1);
    assert_eq!(listener.received(), Vec::<String>::new(), "it was not ready before");
    notify.ready();
    notify.reload(|| ());
    assert_eq!(listener.received(), ["READY=1", "RELOADING=1", "READY=1"]);
}

#[test]
fn watchdog_messages_come_within_half_the_interval_and_only_for_this_process() {
    let (listener, notify, _folder) = listener(Some(60_000_000));
    notify.beat("", true);
    notify.beat("", true);
    assert_eq!(listener.received(), ["WATCHDOG=1"], "the next one is due after half a minute");
    let interval = |us: &str, pid: Option<String>| {
        NotifyVariables { socket: None, watchdog_us: Some(us.to_owned()), watchdog_pid: pid }.watchdog()
    };
    assert_eq!(interval("2000000", None), Some(Duration::from_secs(2)));
    assert_eq!(interval("2000000", Some(std::process::id().to_string())), Some(Duration::from_secs(2)));
    assert_eq!(interval("2000000", Some("1".to_owned())), None);
    assert_eq!(interval("0", None), None);
    assert_eq!(interval("soon", None), None);
}

#[test]
fn an_abstract_name_is_a_socket_too() {
    let name = format!("cloze-notify-{}", std::process::id());
    let listener = bound(&SocketAddr::from_abstract_name(&name).expect("short"));
    asked(&format!("@{name}"), None).ready();
    assert_eq!(listener.received(), ["READY=1"]);
}

#[test]
fn a_full_socket_never_blocks_and_receives_pending_messages_later() {
    let (listener, notify, _folder) = listener(None);
    let began = Instant::now();
    let mut sent = 0;
    let manager = notify.manager.as_ref().expect("a manager");
    while manager.send(&mut notify.state(), "STATUS=more") {
        sent += 1;
        assert!(sent < 1_000_000, "a socket has a limit");
    }
    notify.ready();
    notify.stopping();
    assert!(began.elapsed() < Duration::from_secs(10), "nothing waits");
    assert_eq!(listener.received().len(), sent);
    notify.beat("", true);
    assert_eq!(listener.received(), ["READY=1", "STOPPING=1"]);
    assert_eq!(notify.complaint(), None, "a full socket is no error");
}

#[test]
fn a_listener_that_is_gone_is_reported_once_and_none_is_no_error() {
    let (listener, notify, folder) = listener(Some(1_000_000));
    drop((listener, folder));
    for _ in 0..3 {
        notify.ready();
        notify.beat("step", true);
    }
    assert!(notify.complaint().is_some_and(|error| error.contains("notify")));
    notify.beat("step", true);
    assert_eq!(notify.complaint(), None);
    let odd = asked("vsock:2:1234", None);
    odd.ready();
    assert!(odd.complaint().is_some_and(|error| error.contains("neither a path nor")));
    let unset = Notify::from_cause(&NotifyVariables::default());
    unset.ready();
    unset.beat("step", true);
    unset.stopping();
    assert_eq!(unset.complaint(), None);
}
