//! Server that writes to its connections as a test says.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;

/// Answer of one byte to any request.
pub(crate) const ANSWER: &str = "HTTP/1.1 200 OK\r\ncontent-length: 1\r\netag: \"tag\"\r\nconnection: close\r\n\
                                 last-modified: Sat, 28 Nov 2026 06:00:00 GMT\r\n\r\nx";

/// Binds a free port; returns its address too.
pub(crate) fn bind() -> (TcpListener, String) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("bound").to_string();
    (listener, address)
}

/// Answers that many connections, each in its own thread. Then the port is closed.
pub(crate) fn answer(listener: TcpListener, count: usize, write: impl Fn(&mut TcpStream) + Clone + Send + 'static) {
    let accept = move || {
        for stream in listener.incoming().take(count).flatten() {
            let write = write.clone();
            thread::Builder::new().spawn(move || answer_one(stream, write)).expect("started");
        }
    };
    thread::Builder::new().spawn(accept).expect("started");
}

/// Reads a request without a body, and answers it.
fn answer_one(mut stream: TcpStream, write: impl Fn(&mut TcpStream)) {
    let lines = BufReader::new(stream.try_clone().expect("cloned")).lines();
    let head = lines.map_while(Result::ok).take_while(|line| !line.is_empty());
    if head.count() > 0 {
        write(&mut stream);
    }
}

/// Writes a text. The client may be gone.
pub(crate) fn send(stream: &mut TcpStream, text: &str) -> bool {
    stream.write_all(text.as_bytes()).is_ok()
}
