//! The protocol, against a socket of the test's own.

use super::*;

/// Somebody who listens.
struct Listener(UnixDatagram);

impl Listener {
    fn heard(&self) -> Vec<String> {
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
    Notify::asked(&Asked { socket: Some(socket.into()), watchdog_us, watchdog_pid: None })
}

/// A listener at a path, and who tells it.
fn told(watchdog_us: Option<u64>) -> (Listener, Notify, tempfile::TempDir) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("notify");
    let listener = bound(&SocketAddr::from_pathname(&path).expect("short"));
    (listener, asked(path.to_str().expect("UTF-8"), watchdog_us), folder)
}

#[test]
fn a_life_is_told_in_its_order_and_readiness_once() {
    let (listener, notify, _folder) = told(Some(1_000_000));
    notify.beat("start", true);
    notify.ready();
    notify.ready();
    notify.progress("step 3 of 60".to_owned());
    notify.stopping();
    assert_eq!(listener.heard(), ["STATUS=start", "WATCHDOG=1", "READY=1", "STOPPING=1"]);
    // What only counts on is said once a second.
    notify.beat("step", false);
    assert_eq!(listener.heard(), Vec::<String>::new());
    std::thread::sleep(STATUS_EVERY);
    notify.beat("step", false);
    notify.beat("step", false);
    assert_eq!(listener.heard(), ["STATUS=step: step 3 of 60"], "who stands still gives no sign of life");
    assert_eq!(notify.complaint(), None);
}

#[test]
fn a_reload_ends_as_ready_as_it_began() {
    let (listener, notify, _folder) = told(None);
    assert_eq!(notify.reload(|| 1), 1);
    assert_eq!(listener.heard(), Vec::<String>::new(), "it was not ready before");
    notify.ready();
    notify.reload(|| ());
    assert_eq!(listener.heard(), ["READY=1", "RELOADING=1", "READY=1"]);
}

#[test]
fn signs_of_life_come_well_within_the_interval_and_only_from_who_was_asked() {
    let (listener, notify, _folder) = told(Some(60_000_000));
    notify.beat("", true);
    notify.beat("", true);
    assert_eq!(listener.heard(), ["WATCHDOG=1"], "half a minute is soon enough");
    let interval = |us: &str, pid: Option<String>| {
        Asked { socket: None, watchdog_us: Some(us.to_owned()), watchdog_pid: pid }.watchdog()
    };
    assert_eq!(interval("2000000", None), Some(Duration::from_secs(2)));
    assert_eq!(interval("2000000", Some(std::process::id().to_string())), Some(Duration::from_secs(2)));
    assert_eq!(interval("2000000", Some("1".to_owned())), None);
    assert_eq!(interval("0", None), None);
    assert_eq!(interval("soon", None), None);
}

#[test]
fn a_name_in_the_abstract_is_a_socket_too() {
    let name = format!("cloze-notify-{}", std::process::id());
    let listener = bound(&SocketAddr::from_abstract_name(&name).expect("short"));
    asked(&format!("@{name}"), None).ready();
    assert_eq!(listener.heard(), ["READY=1"]);
}

#[test]
fn a_listener_that_is_full_holds_nobody_up_and_hears_what_matters_later() {
    let (listener, notify, _folder) = told(None);
    let began = Instant::now();
    let mut sent = 0;
    let manager = notify.manager.as_ref().expect("it listens");
    while manager.say(&mut notify.state(), "STATUS=more") {
        sent += 1;
        assert!(sent < 1_000_000, "a socket has an end");
    }
    notify.ready();
    notify.stopping();
    assert!(began.elapsed() < Duration::from_secs(10), "nothing waits");
    assert_eq!(listener.heard().len(), sent);
    notify.beat("", true);
    assert_eq!(listener.heard(), ["READY=1", "STOPPING=1"]);
    assert_eq!(notify.complaint(), None, "who is slow is not gone");
}

#[test]
fn a_listener_that_is_gone_is_said_once_and_none_is_no_trouble() {
    let (listener, notify, folder) = told(Some(1_000_000));
    drop((listener, folder));
    for _ in 0..3 {
        notify.ready();
        notify.beat("step", true);
    }
    assert!(notify.complaint().is_some_and(|trouble| trouble.contains("notify")));
    notify.beat("step", true);
    assert_eq!(notify.complaint(), None);
    let odd = asked("vsock:2:1234", None);
    odd.ready();
    assert!(odd.complaint().is_some_and(|trouble| trouble.contains("neither a path nor")));
    let nobody = Notify::asked(&Asked::default());
    nobody.ready();
    nobody.beat("step", true);
    nobody.stopping();
    assert_eq!(nobody.complaint(), None);
}
