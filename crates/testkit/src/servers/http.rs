//! Small HTTP server whose answers can be cut, delayed or lost.

use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;

/// Request with its body.
#[derive(Clone, Debug)]
pub struct Request {
    /// `GET` and the like.
    pub method: String,
    /// Percent-encoded path without the query.
    pub path: String,
    /// Encoded query, without `?`.
    pub query: String,
    /// Names in lower case.
    headers: Vec<(String, String)>,
    /// Whole body.
    pub body: Vec<u8>,
    /// Port of the client, which tells its connections apart.
    pub client_port: u16,
}

impl Request {
    /// Value of a header, whose name is in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// Value of a parameter of the query, decoded.
    pub fn parameter(&self, name: &str) -> Option<String> {
        let mut parameters = self.query.split('&').map(|pair| pair.split_once('=').unwrap_or((pair, "")));
        parameters.find(|(known, _)| *known == name).map(|(_, value)| decoded(&value.replace('+', " ")))
    }

    /// First and last byte of the range that was asked for.
    pub fn range(&self) -> Option<(usize, usize)> {
        let (first, last) = self.header("range")?.strip_prefix("bytes=")?.split_once('-')?;
        Some((first.parse().expect("a number"), last.parse().expect("a number")))
    }
}

/// Decodes `%20` and the like.
pub fn decoded(text: &str) -> String {
    let mut parts = text.split('%');
    let mut bytes = parts.next().expect("one part at least").as_bytes().to_vec();
    for part in parts {
        let (digits, plain) = part.split_at(2);
        bytes.push(u8::from_str_radix(digits, 16).expect("two digits"));
        bytes.extend(plain.as_bytes());
    }
    String::from_utf8(bytes).expect("UTF-8")
}

/// Delivery of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// All bytes arrive.
    Whole,
    /// The connection closes after that many bytes of the body.
    Cut(usize),
    /// After that many bytes of the body nothing follows, until the client closes the connection.
    Stall(usize),
    /// The connection closes without an answer.
    Lost,
    /// The answer claims to have that many bytes, and ends with those that there are.
    Claims(u64),
}

/// Answer to a request.
#[derive(Clone, Debug)]
pub struct Response {
    /// Status, such as 200.
    pub status: u16,
    /// Headers, except the length of the body.
    pub headers: Vec<(String, String)>,
    /// Whole body.
    pub body: Vec<u8>,
    /// Delivery of the answer.
    pub delivery: Delivery,
}

impl Response {
    /// Creates an answer without headers.
    pub fn new(status: u16, body: impl Into<Vec<u8>>) -> Self {
        Self { status, headers: Vec::new(), body: body.into(), delivery: Delivery::Whole }
    }

    /// Returns the answer with one more header.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl Into<String>) -> Self {
        self.headers.push((name.to_owned(), value.into()));
        self
    }

    /// Whole content, or the range of it that was asked for.
    pub fn of_content(request: &Request, content: &[u8]) -> Self {
        match request.range() {
            None => Self::new(200, content),
            Some((first, _)) if first >= content.len() => Self::new(416, ""),
            Some((first, last)) => {
                let last = last.min(content.len() - 1);
                let range = format!("bytes {first}-{last}/{}", content.len());
                Self::new(206, &content[first..=last]).with("content-range", range)
            }
        }
    }
}

type Handler = dyn Fn(&Request) -> Response + Send + Sync;

/// Starts a server; returns its address. It ends with the process.
pub fn serve(handler: impl Fn(&Request) -> Response + Send + Sync + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("bound").to_string();
    let handler: Arc<Handler> = Arc::new(handler);
    start("server", move || {
        for stream in listener.incoming().flatten() {
            let handler = Arc::clone(&handler);
            start("connection", move || answer_all(stream, &*handler));
        }
    });
    address
}

fn start(name: &str, work: impl FnOnce() + Send + 'static) {
    thread::Builder::new().name(name.to_owned()).spawn(work).expect("started");
}

/// Answers the requests of one connection.
fn answer_all(stream: TcpStream, handler: &Handler) {
    stream.set_nodelay(true).expect("set");
    let Ok(client) = stream.peer_addr() else { return };
    let mut reader = BufReader::new(stream.try_clone().expect("cloned"));
    let mut stream = stream;
    while let Some(request) = read_request(&mut reader, client.port()) {
        let response = handler(&request);
        if !send(&mut stream, &request, &response) {
            return;
        }
    }
}

fn read_request(reader: &mut BufReader<TcpStream>, client_port: u16) -> Option<Request> {
    let mut line = String::new();
    reader.read_line(&mut line).ok().filter(|length| *length > 0)?;
    let mut words = line.split(' ');
    let method = words.next()?.to_owned();
    let target = words.next()?.to_owned();
    let mut headers = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok().filter(|length| *length > 0)?;
        let Some((name, value)) = line.trim_end().split_once(':') else { break };
        headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
    }
    let (path, query) = target.split_once('?').unwrap_or((&target, ""));
    let body = Vec::new();
    let mut request = Request { method, path: path.to_owned(), query: query.to_owned(), headers, body, client_port };
    let length = request.header("content-length").map_or(0, |length| length.parse().expect("a number"));
    request.body = vec![0; length];
    reader.read_exact(&mut request.body).ok()?;
    Some(request)
}

/// Sends an answer. Returns false if the connection is closed.
fn send(stream: &mut TcpStream, request: &Request, response: &Response) -> bool {
    if response.delivery == Delivery::Lost {
        let _ = stream.shutdown(Shutdown::Both);
        return false;
    }
    let mut head = format!("HTTP/1.1 {} X\r\n", response.status);
    // The answer to HEAD tells the length of the body that it leaves out.
    if response.status != 204 {
        let claimed = match response.delivery {
            Delivery::Claims(bytes) => bytes,
            _ => response.body.len() as u64,
        };
        let _ = write!(head, "content-length: {claimed}\r\n");
    }
    for (name, value) in &response.headers {
        let _ = write!(head, "{name}: {value}\r\n");
    }
    head += "\r\n";
    let body = if request.method == "HEAD" { &[] } else { &*response.body };
    let sent = match response.delivery {
        Delivery::Cut(bytes) | Delivery::Stall(bytes) => &body[..bytes.min(body.len())],
        Delivery::Whole | Delivery::Lost | Delivery::Claims(_) => body,
    };
    let outcome = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(sent));
    match response.delivery {
        Delivery::Whole => outcome.is_ok(),
        Delivery::Stall(_) => {
            // Ends when the client gives up.
            let _ = stream.read(&mut [0]);
            false
        }
        Delivery::Claims(_) if request.method == "HEAD" => outcome.is_ok(),
        Delivery::Cut(_) | Delivery::Lost | Delivery::Claims(_) => {
            let _ = stream.shutdown(Shutdown::Both);
            false
        }
    }
}
