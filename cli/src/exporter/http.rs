//! The part of HTTP/1.1 (RFC 9112) that a scrape needs: one request per connection.

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::metrics::Format;
use crate::output::{Failure, print_message};

/// Maximum length of a request's head, in bytes.
const MAX_HEAD_BYTES: usize = 8 << 10;
/// Maximum number of connections at once; further ones are closed.
const MAX_CONNECTIONS: usize = 32;
/// Longest time for a client to send its request, and longest time to read the response.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Serves every connection in its own thread. Never returns.
pub(super) fn serve(listener: &TcpListener, metrics: impl Fn(Format) -> Result<String, Failure> + Sync) {
    let open_count = AtomicUsize::new(0);
    thread::scope(|scope| {
        for stream in listener.incoming() {
            let Ok(stream) = stream else {
                // The process may be out of file descriptors.
                thread::sleep(Duration::from_millis(100));
                continue;
            };
            if open_count.fetch_add(1, Ordering::Relaxed) >= MAX_CONNECTIONS {
                open_count.fetch_sub(1, Ordering::Relaxed);
                continue;
            }
            scope.spawn(|| {
                // The client may have disconnected.
                let _ = respond(stream, &metrics);
                open_count.fetch_sub(1, Ordering::Relaxed);
            });
        }
    });
}

fn respond(mut stream: TcpStream, metrics: impl Fn(Format) -> Result<String, Failure>) -> io::Result<()> {
    let (status, content_type, body) = match read_head(&mut stream)? {
        None => ("400 Bad Request", PLAIN_TEXT, "not an HTTP request\n".to_owned()),
        Some(head) => match Request::new(&head) {
            Request::Metrics(format) => match metrics(format) {
                Ok(text) => ("200 OK", format.content_type(), text),
                Err(failure) => {
                    print_message(&failure.to_string());
                    ("500 Internal Server Error", PLAIN_TEXT, format!("{failure}\n"))
                }
            },
            Request::Index => ("200 OK", PLAIN_TEXT, "gantry exporter: see /metrics\n".to_owned()),
            Request::UnknownPath => ("404 Not Found", PLAIN_TEXT, "see /metrics\n".to_owned()),
            Request::OtherMethod => ("405 Method Not Allowed", PLAIN_TEXT, "only GET\n".to_owned()),
        },
    };
    let length = body.len();
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"
    );
    let deadline = Instant::now() + TIMEOUT;
    send(&mut stream, head.as_bytes(), deadline)?;
    send(&mut stream, body.as_bytes(), deadline)
}

/// Sends bytes to a client, until a deadline.
fn send(stream: &mut TcpStream, mut bytes: &[u8], deadline: Instant) -> io::Result<()> {
    while !bytes.is_empty() {
        let remaining = deadline.saturating_duration_since(Instant::now());
        if remaining.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        stream.set_write_timeout(Some(remaining))?;
        match stream.write(bytes) {
            // The process was stopped and continued (signal(7)).
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            sent => bytes = &bytes[sent?..],
        }
    }
    Ok(())
}

const PLAIN_TEXT: &str = "text/plain; charset=utf-8";

/// Reads the head of a request. Returns `None` if the head is incomplete, too long or not UTF-8.
fn read_head(stream: &mut TcpStream) -> io::Result<Option<String>> {
    let deadline = Instant::now() + TIMEOUT;
    let mut head = Vec::new();
    let mut piece = [0; 1024];
    while !head.windows(4).any(|end| end == b"\r\n\r\n") {
        let remaining = deadline.saturating_duration_since(Instant::now());
        // A timeout of zero is an error (`set_read_timeout`).
        stream.set_read_timeout(Some(remaining.max(Duration::from_millis(1))))?;
        let bytes = match stream.read(&mut piece) {
            // The process was stopped and continued (signal(7)).
            Err(error) if error.kind() == io::ErrorKind::Interrupted && !remaining.is_zero() => continue,
            read => read?,
        };
        head.extend_from_slice(&piece[..bytes]);
        if bytes == 0 || head.len() > MAX_HEAD_BYTES || remaining.is_zero() {
            return Ok(None);
        }
    }
    Ok(String::from_utf8(head).ok())
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Request {
    Metrics(Format),
    Index,
    UnknownPath,
    OtherMethod,
}

impl Request {
    fn new(head: &str) -> Self {
        let mut lines = head.lines();
        let mut words = lines.next().unwrap_or_default().split(' ');
        let (method, target) = (words.next(), words.next().unwrap_or_default());
        if method != Some("GET") {
            return Request::OtherMethod;
        }
        let accept =
            lines.filter_map(|line| line.split_once(':')).filter(|(name, _)| name.eq_ignore_ascii_case("accept"));
        let mut kinds = accept.flat_map(|(_, kinds)| kinds.split(','));
        let openmetrics = kinds.any(|kind| kind.trim().starts_with("application/openmetrics-text"));
        match target.split('?').next() {
            Some("/metrics") => Request::Metrics(if openmetrics { Format::OpenMetrics } else { Format::Text }),
            Some("/") => Request::Index,
            _ => Request::UnknownPath,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_that_reads_slowly_is_cut_off_in_time() {
        const BODY: usize = 64 << 20;
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        client.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").unwrap();
        let (stream, _) = listener.accept().unwrap();
        let server = thread::spawn(|| respond(stream, |_| Ok("x".repeat(BODY))));
        let (mut piece, mut read) = (vec![0; 64 << 10], 0);
        while let Ok(bytes @ 1..) = client.read(&mut piece) {
            read += bytes;
            thread::sleep(Duration::from_millis(100));
        }
        assert!(server.join().unwrap().is_err() && read < BODY, "{read} bytes");
    }

    #[test]
    fn a_request_is_parsed_by_method_path_and_accept() {
        let cases = [
            ("GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n", Request::Metrics(Format::Text)),
            (
                "GET /metrics?x=1 HTTP/1.1\r\nACCEPT: text/plain, application/openmetrics-text;version=1.0.0\r\n\r\n",
                Request::Metrics(Format::OpenMetrics),
            ),
            ("GET / HTTP/1.0\r\n\r\n", Request::Index),
            ("GET /metricsx HTTP/1.1\r\n\r\n", Request::UnknownPath),
            ("POST /metrics HTTP/1.1\r\n\r\n", Request::OtherMethod),
            ("\r\n\r\n", Request::OtherMethod),
        ];
        for (head, request) in cases {
            assert!(Request::new(head) == request, "{head}");
        }
    }
}
