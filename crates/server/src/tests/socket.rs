//! Tests with addresses that are in use, missing or not a socket.

use super::*;

#[test]
fn a_socket_is_accessible_only_to_its_owner() {
    use std::os::unix::fs::PermissionsExt as _;
    use std::os::unix::net::UnixStream;

    let home = tempfile::tempdir().expect("a temporary folder");
    let path = home.path().join("serve.sock");
    // Stale socket of a killed process.
    drop(std::os::unix::net::UnixListener::bind(&path).expect("bound"));
    let config = ServeConfig { address: path.display().to_string(), ..ServeConfig::default() };
    let (sender, heard) = sync_channel(1);
    let on_bound = move |_: &ListenAddress| sender.send(()).expect("heard");
    let played = Arc::<Played>::default();
    let server = Server::start(&config, &RunState::new(about()), Arc::clone(&played) as _, on_bound);
    let server = server.expect("started").expect("an address");
    heard.recv_timeout(Duration::from_secs(10)).expect("bound");
    assert_eq!(std::fs::metadata(&path).expect("there").permissions().mode() & 0o777, 0o600);
    let mut stream = UnixStream::connect(&path).expect("the server listens");
    write!(stream, "POST /stop HTTP/1.1\r\nContent-Length: 0\r\nConnection: close\r\n\r\n").expect("asked");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("answered");
    assert_eq!(code(&answer), 200, "{answer}");
    drop(server);
    assert!(!path.exists());
}

#[test]
fn an_address_in_use_is_retried_until_it_is_free() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("bound");
    let address = taken.local_addr().expect("an address").to_string();
    let (_server, heard) = starting(&address);
    assert!(heard.recv_timeout(Duration::from_millis(500)).is_err(), "the address is in use");
    drop(taken);
    heard.recv_timeout(Duration::from_secs(20)).expect("the server retries");
}

/// Starts a server. Returns it with a receiver that is notified when it listens.
fn starting(address: &str) -> (Server, std::sync::mpsc::Receiver<()>) {
    let config = ServeConfig { address: address.to_owned(), ..ServeConfig::default() };
    let (sender, heard) = sync_channel(1);
    let on_bound = move |_: &ListenAddress| sender.send(()).expect("heard");
    let server = Server::start(&config, &RunState::new(about()), Arc::<Played>::default(), on_bound);
    (server.expect("no error").expect("an address"), heard)
}

#[test]
fn a_socket_waits_for_its_folder_and_keeps_foreign_files() {
    let home = tempfile::tempdir().expect("a temporary folder");
    let path = home.path().join("later/serve.sock");
    let (server, heard) = starting(&path.display().to_string());
    assert!(heard.recv_timeout(Duration::from_millis(300)).is_err(), "the folder does not exist yet");
    std::fs::create_dir(home.path().join("later")).expect("made");
    heard.recv_timeout(Duration::from_secs(5)).expect("the folder exists");
    let names: Vec<_> = std::fs::read_dir(home.path().join("later")).expect("there").collect();
    assert_eq!(names.len(), 1, "only the socket is left: {names:?}");
    // Another process takes the path.
    std::fs::remove_file(&path).expect("removed");
    let other = std::os::unix::net::UnixListener::bind(&path).expect("bound");
    drop(server);
    assert!(path.exists(), "the socket belongs to another process");
    drop(other);
}

#[test]
fn a_regular_file_is_refused_and_a_full_queue_does_not_block_the_end() {
    use std::os::unix::net::UnixStream;

    let home = tempfile::tempdir().expect("a temporary folder");
    let file = home.path().join("file");
    store::Store::folder(home.path()).expect("a folder").put("file", b"mine").expect("written");
    let config = ServeConfig { address: file.display().to_string(), ..ServeConfig::default() };
    let on_bound = |_: &ListenAddress| panic!("no socket");
    let refused =
        Server::start(&config, &RunState::new(about()), Arc::<Played>::default(), on_bound).expect_err("refused");
    assert!(refused.contains("no socket") && std::fs::read(&file).expect("there") == b"mine", "{refused}");
    // Socket of a process that accepts no connections.
    let path = home.path().join("full.sock");
    let silent = std::os::unix::net::UnixListener::bind(&path).expect("bound");
    silent.set_nonblocking(true).expect("set");
    let (sender, connected) = sync_channel::<UnixStream>(10_000);
    let to = path.clone();
    // More connections than any queue holds; the last one blocks forever, and its thread is abandoned.
    let fills = move || while UnixStream::connect(&to).is_ok_and(|stream| sender.send(stream).is_ok()) {};
    std::thread::Builder::new().spawn(fills).expect("a thread");
    let mut kept = Vec::new();
    while let Ok(stream) = connected.recv_timeout(Duration::from_secs(1)) {
        kept.push(stream);
    }
    let (server, heard) = starting(&path.display().to_string());
    assert!(heard.recv_timeout(Duration::from_millis(500)).is_err(), "the address is in use");
    let begun = Instant::now();
    drop(server);
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
}
