//! Running exporters, their answers, and a data path for them to query.

#![allow(dead_code, reason = "each test file uses its own part")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::gantry::command;

/// A process that is terminated on drop.
pub(crate) struct Running(pub(crate) Child);

impl Drop for Running {
    fn drop(&mut self) {
        let begun = Instant::now();
        while self.0.try_wait().is_ok_and(|ended| ended.is_none()) && begun.elapsed() < Duration::from_secs(5) {
            // SIGTERM, so that a server ends its workers, too.
            let _ = kill(Pid::from_raw(self.0.id().cast_signed()), Signal::SIGTERM);
            std::thread::sleep(Duration::from_millis(5));
        }
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts an exporter, and returns its address.
pub(crate) fn exporter(arguments: &[&str]) -> (Running, SocketAddr) {
    let mut command = command(&["exporter", "--listen", "127.0.0.1:0"]);
    let mut child = Running(command.args(arguments).stderr(Stdio::piped()).spawn().unwrap());
    let lines = BufReader::new(child.0.stderr.take().unwrap()).lines();
    let address = lines
        .map_while(Result::ok)
        .find_map(|line| line.split_once("http://").and_then(|(_, rest)| rest.strip_suffix("/metrics")?.parse().ok()));
    (child, address.expect("the exporter prints its address"))
}

/// Returns a server's answer: status line, head, body.
pub(crate) fn answer(to: SocketAddr, request: &str) -> (String, String, String) {
    let mut stream = TcpStream::connect(to).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{answer:?}"));
    let (status, head) = head.split_once("\r\n").unwrap();
    (status.to_owned(), head.to_owned(), body.to_owned())
}

pub(crate) fn scrape(from: SocketAddr) -> String {
    let (status, head, body) = answer(from, "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
    assert_eq!(status, "HTTP/1.1 200 OK");
    assert!(
        head.contains("text/plain; version=0.0.4") && head.contains(&format!("Content-Length: {}", body.len())),
        "{head}"
    );
    body
}

/// Returns a port of the loopback that is currently free.
pub(crate) fn port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// Checks that promtool accepts the metrics without a warning.
pub(crate) fn promtool_is_silent(metrics: &str) {
    let mut check = Command::new("promtool");
    check.args(["check", "metrics"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut check = check.spawn().unwrap();
    check.stdin.take().unwrap().write_all(metrics.as_bytes()).unwrap();
    let output = check.wait_with_output().unwrap();
    assert!(output.status.success() && output.stdout.is_empty() && output.stderr.is_empty(), "{output:?}");
}

/// Sums all samples of a name whose labels contain `label`.
pub(crate) fn sum(metrics: &str, name: &str, label: &str) -> u64 {
    let lines = metrics.lines().filter(|line| line.starts_with(name) && line.contains(label));
    lines.map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap()).sum()
}

/// Listens on a socket and answers with `report` as the data path of `gantry esp` does. `None` leaves clients without an answer.
pub(crate) fn data_path(folder: &Path, report: &Arc<Mutex<Option<String>>>) {
    let listener = UnixListener::bind(folder.join("status")).unwrap();
    let report = report.clone();
    std::thread::spawn(move || {
        let mut waiting = Vec::new();
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            match &*report.lock().unwrap() {
                // The client may close the connection early.
                Some(report) => drop(stream.write_all(report.as_bytes())),
                None => waiting.push(stream),
            }
        }
    });
}

/// Returns the names of a data path's counters.
pub(crate) fn esp_counters() -> Vec<String> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../frontends/esp/src/counters.rs");
    let text = std::fs::read_to_string(file).unwrap();
    let rows = text.split_once("\ncounters! {\n").unwrap().1.split_once("\n}").unwrap().0;
    rows.lines().filter_map(|row| row.strip_prefix("    ")?.strip_suffix(',')).map(str::to_owned).collect()
}

/// Makes a report. `count` returns the value of a counter from its index.
pub(crate) fn esp_report(count: impl Fn(usize) -> usize) -> String {
    let counters: Vec<String> =
        esp_counters().iter().enumerate().map(|(at, name)| format!("\"{name}\":{}", count(at))).collect();
    format!(
        r#"{{"associations":{{"in":3,"out":2}},"counters":{{{}}},"device":"gantry0","devices":[],"policies":6,"port":4500,"sas":[{{"spi":"0x1"}}]}}"#,
        counters.join(",")
    )
}
