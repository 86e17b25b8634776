//! Addresses that are taken, gone, or something else.

use super::*;

#[test]
fn a_socket_is_its_owners_alone() {
    use std::os::unix::fs::PermissionsExt as _;
    use std::os::unix::net::UnixStream;

    let home = tempfile::tempdir().expect("a temporary folder");
    let path = home.path().join("serve.sock");
    // One that a killed process left.
    drop(std::os::unix::net::UnixListener::bind(&path).expect("bound"));
    let config = ServeConfig { address: path.display().to_string(), ..ServeConfig::default() };
    let (sender, heard) = sync_channel(1);
    let told = move |_: &ListenAddress| sender.send(()).expect("heard");
    let played = Arc::<Played>::default();
    let server = Server::start(&config, &RunState::new(about()), Arc::clone(&played) as _, told);
    let server = server.expect("started").expect("an address");
    heard.recv_timeout(Duration::from_secs(10)).expect("bound");
    assert_eq!(std::fs::metadata(&path).expect("there").permissions().mode() & 0o777, 0o600);
    let mut stream = UnixStream::connect(&path).expect("somebody listens");
    write!(stream, "POST /stop HTTP/1.1\r\nContent-Length: 0\r\nConnection: close\r\n\r\n").expect("asked");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("answered");
    assert_eq!(code(&answer), 200, "{answer}");
    drop(server);
    assert!(!path.exists());
}

#[test]
fn an_address_that_is_taken_ends_nothing_and_is_had_when_it_is_free() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("bound");
    let address = taken.local_addr().expect("an address").to_string();
    let (_server, heard) = starting(&address);
    assert!(heard.recv_timeout(Duration::from_millis(500)).is_err(), "it is taken");
    drop(taken);
    heard.recv_timeout(Duration::from_secs(20)).expect("it is tried again");
}

/// A server, and who hears that it listens.
fn starting(address: &str) -> (Server, std::sync::mpsc::Receiver<()>) {
    let config = ServeConfig { address: address.to_owned(), ..ServeConfig::default() };
    let (sender, heard) = sync_channel(1);
    let told = move |_: &ListenAddress| sender.send(()).expect("heard");
    let server = Server::start(&config, &RunState::new(about()), Arc::<Played>::default(), told);
    (server.expect("no error").expect("an address"), heard)
}

#[test]
fn a_socket_waits_for_its_folder_and_leaves_what_is_anothers() {
    let home = tempfile::tempdir().expect("a temporary folder");
    let path = home.path().join("later/serve.sock");
    let (server, heard) = starting(&path.display().to_string());
    assert!(heard.recv_timeout(Duration::from_millis(300)).is_err(), "there is no such folder yet");
    std::fs::create_dir(home.path().join("later")).expect("made");
    heard.recv_timeout(Duration::from_secs(5)).expect("it is there now");
    let names: Vec<_> = std::fs::read_dir(home.path().join("later")).expect("there").collect();
    assert_eq!(names.len(), 1, "nothing else is left: {names:?}");
    // Somebody takes the name.
    std::fs::remove_file(&path).expect("removed");
    let other = std::os::unix::net::UnixListener::bind(&path).expect("bound");
    drop(server);
    assert!(path.exists(), "it is not the server's");
    drop(other);
}

#[test]
fn what_is_no_socket_is_refused_and_a_full_one_holds_nobody_up() {
    use std::os::unix::net::UnixStream;

    let home = tempfile::tempdir().expect("a temporary folder");
    let file = home.path().join("file");
    store::Store::folder(home.path()).expect("a folder").put("file", b"mine").expect("written");
    let config = ServeConfig { address: file.display().to_string(), ..ServeConfig::default() };
    let told = |_: &ListenAddress| panic!("no socket");
    let refused = Server::start(&config, &RunState::new(about()), Arc::<Played>::default(), told).expect_err("refused");
    assert!(refused.contains("no socket") && std::fs::read(&file).expect("there") == b"mine", "{refused}");
    // Of somebody who takes no connection.
    let path = home.path().join("full.sock");
    let silent = std::os::unix::net::UnixListener::bind(&path).expect("bound");
    silent.set_nonblocking(true).expect("set");
    let (sender, connected) = sync_channel::<UnixStream>(10_000);
    let to = path.clone();
    // More than any queue has room for; the last of them waits forever, and is left to.
    let fills = move || while UnixStream::connect(&to).is_ok_and(|stream| sender.send(stream).is_ok()) {};
    std::thread::Builder::new().spawn(fills).expect("a thread");
    let mut kept = Vec::new();
    while let Ok(stream) = connected.recv_timeout(Duration::from_secs(1)) {
        kept.push(stream);
    }
    let (server, heard) = starting(&path.display().to_string());
    assert!(heard.recv_timeout(Duration::from_millis(500)).is_err(), "it is taken");
    let begun = Instant::now();
    drop(server);
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
}
