//! Gantry's server in a process of its own, to measure its CPU time.

use std::error::Error;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::{env, fs};

use gantry_runtime::Config;
use gantry_vhost_user::{Counters, Limits, Server, Socket};

/// A process that serves guests.
pub(crate) struct ServerProcess {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    folder: PathBuf,
}

/// Sums over guests: the requests taken, and for each request the number of requests in its burst.
#[derive(Clone, Copy, Default)]
pub(crate) struct Sums {
    pub(crate) requests: u64,
    pub(crate) burst_sum: u64,
}

impl ServerProcess {
    /// Starts a server with a guest for each rate: bytes per second, or 0 for no limit.
    pub(crate) fn new(rates: &[u64]) -> Result<Self, Box<dyn Error>> {
        let folder = env::temp_dir().join(format!("vhost-bench-{}", std::process::id()));
        fs::create_dir_all(&folder)?;
        let mut child = Command::new(env::current_exe()?)
            .arg("serve")
            .arg(&folder)
            .args(rates.iter().map(u64::to_string))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let input = child.stdin.take().ok_or("no pipe")?;
        let output = BufReader::new(child.stdout.take().ok_or("no pipe")?);
        let mut server = Self { child, input, output, folder };
        // The first sums arrive once the sockets exist.
        server.sums()?;
        Ok(server)
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn socket(&self, guest: usize) -> PathBuf {
        socket(&self.folder, guest)
    }

    /// Returns the sums of all guests.
    pub(crate) fn sums(&mut self) -> Result<Sums, Box<dyn Error>> {
        self.input.write_all(b"\n")?;
        let mut line = String::new();
        self.output.read_line(&mut line)?;
        let (requests, burst_sum) = line.trim().split_once(' ').ok_or("the server has ended")?;
        Ok(Sums { requests: requests.parse()?, burst_sum: burst_sum.parse()? })
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        // The process may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Runs the server's process, which answers each line of its input with the sums, and ends with the input.
pub(crate) fn serve(folder: &Path, rates: &[&str]) -> Result<(), Box<dyn Error>> {
    let server = Server::new(gantry_runtime::open(Config::from_env()?)?)?;
    for (guest, rate) in rates.iter().enumerate() {
        let limits = Limits { rate: Some(rate.parse()?).filter(|rate| *rate > 0), ..Limits::default() };
        server.listen(
            &Socket { path: socket(folder, guest), mode: 0o600, owner: (None, None) },
            limits,
            Counters::default(),
        )?;
    }
    for line in std::io::stdin().lines() {
        line?;
        let guests = server.guests();
        let sums = guests.iter().fold(Sums::default(), |sums, (_, guest)| Sums {
            requests: sums.requests + guest.requests,
            burst_sum: sums.burst_sum + guest.burst_sum,
        });
        println!("{} {}", sums.requests, sums.burst_sum);
    }
    Ok(())
}

fn socket(folder: &Path, guest: usize) -> PathBuf {
    folder.join(format!("guest{guest}.sock"))
}
