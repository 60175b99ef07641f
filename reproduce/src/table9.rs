//! Table 9 of the paper: an IPsec tunnel between two hosts, without cryptography, with cryptography by the CPU, and by a card.
//!
//! The hosts are two network namespaces of this machine, the sender is iperf3, and `gantry esp serve` runs on both sides. The column "raw"
//! of the paper is a wire without a tunnel and without ESP.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use nix::unistd::Uid;
use serde_json::Value;
use tempfile::TempDir;

use crate::report::{Result, Row, say};

use crate::table::Table;

/// Bytes per write of the sender.
const WRITE_SIZES: [usize; 3] = [1024, 4096, 16384];
/// Seconds for which the sender sends.
const SECONDS: u32 = 3;
/// Longest time for a data path to start.
const START_TIMEOUT: Duration = Duration::from_secs(20);

/// A column: the device that computes ESP.
struct Variant {
    name: &'static str,
    /// Settings of the data path; `None` if there is no tunnel.
    settings: Option<&'static [&'static str]>,
}

/// The setting for the card: a model in real time.
const CARD: &str = "devices=model:freescale-sec=on";

const VARIANTS: [Variant; 5] = [
    Variant { name: "raw", settings: None },
    Variant { name: "software", settings: Some(&["policy=pin:software"]) },
    Variant { name: "lanes", settings: Some(&["policy=pin:lanes"]) },
    Variant { name: "learned", settings: Some(&[]) },
    Variant { name: "card", settings: Some(&[CARD, "policy=pin:model:freescale-sec"]) },
];

/// The sides: the suffix of the namespace's name, and addresses on the wire and behind the tunnel.
const NEAR: Side = Side { name: "near", wire: "10.91.0.1", inner: "10.91.1.1" };
const FAR: Side = Side { name: "far", wire: "10.91.0.2", inner: "10.91.2.1" };

struct Side {
    name: &'static str,
    wire: &'static str,
    inner: &'static str,
}

/// AES-128-CBC with HMAC-SHA1, in place of the paper's 3DES with HMAC-SHA1. The keys are not secret.
const ALGORITHMS: [&str; 9] = [
    "enc",
    "cbc(aes)",
    "0x000102030405060708090a0b0c0d0e0f",
    "auth-trunc",
    "hmac(sha1)",
    "0x000102030405060708090a0b0c0d0e0f10111213",
    "96",
    "encap",
    "espinudp",
];

/// Returns the first requirement that this machine does not meet.
pub(crate) fn missing_requirement(simulated_only: bool) -> Option<&'static str> {
    if simulated_only {
        return Some("real time");
    }
    if !Uid::effective().is_root() {
        return Some("root, for network namespaces");
    }
    let starts = |name, argument| Command::new(name).arg(argument).output().is_ok();
    if !starts("ip", "-V") || !starts("iperf3", "--version") {
        return Some("ip and iperf3 (Debian: iproute2, iperf3)");
    }
    let models = Command::new(gantry_path()).args(["--set", CARD, "devices"]).output();
    if !models.is_ok_and(|output| output.status.success()) {
        return Some(
            "the program gantry beside this one, with models (cargo build --release -p gantry-crypto-cli --features model)",
        );
    }
    None
}

/// Returns the path of the command `gantry` of the same build.
fn gantry_path() -> PathBuf {
    std::env::current_exe().unwrap_or_default().with_file_name("gantry")
}

pub(crate) fn run(rows: &mut Vec<Row>) -> Result<String> {
    let network = Network::new()?;
    let mut table = Table::new(&["ESP BY", "BYTES", "Mb/s", "CPU s/GB SENDER", "CPU s/GB RECEIVER"], 1);
    for variant in &VARIANTS {
        let tunnel = variant.settings.map(|settings| Tunnel::new(&network, settings)).transpose()?;
        for bytes in WRITE_SIZES {
            say(format_args!("{} bytes, {}: {SECONDS} s", bytes, variant.name));
            let before = tunnel.as_ref().map(Tunnel::cpu_seconds);
            let (megabits, gigabytes) = network.send(bytes, tunnel.is_some())?;
            let cpu = before
                .zip(tunnel.as_ref().map(Tunnel::cpu_seconds))
                .map(|(before, after)| [0, 1].map(|side| (after[side] - before[side]) / gigabytes));
            let cells = cpu.map_or_else(|| [String::new(), String::new()], |cpu| cpu.map(|cpu| format!("{cpu:.2}")));
            let [sender, receiver] = cells;
            table.push_row([variant.name.to_owned(), bytes.to_string(), format!("{megabits:.0}"), sender, receiver]);
            rows.push(Row::new("Table 9", format!("{bytes} bytes, {}", variant.name), "Mb/s", None, megabits));
        }
    }
    Ok(format!(
        "Table 9: megabits per second of TCP through a tunnel of ESP, AES-128-CBC with HMAC-SHA1, MTU 1400, {SECONDS} s each, between\n\
         two namespaces of this machine. In 2003, with 3DES and HMAC-SHA1 between two hosts: raw 624 to 799, software\n\
         27 to 44, a BCM5822 160 to 170. The card is a model of a Freescale SEC, in real time.\n\n{}",
        table.render()
    ))
}

/// Two namespaces and a wire, removed on drop.
struct Network {
    names: [String; 2],
    folder: TempDir,
}

impl Network {
    fn new() -> Result<Self> {
        let names = [NEAR.name, FAR.name].map(|name| format!("gantry-{}-{name}", std::process::id()));
        let network = Self { names, folder: TempDir::new()? };
        let [near, far] = &network.names;
        for name in [near, far] {
            ip(&["netns", "add", name])?;
            ip(&["-n", name, "link", "set", "lo", "up"])?;
        }
        ip(&["link", "add", "wire", "netns", near, "type", "veth", "peer", "name", "wire", "netns", far])?;
        for (name, side) in [(near, NEAR), (far, FAR)] {
            ip(&["-n", name, "address", "add", &format!("{}/24", side.wire), "dev", "wire"])?;
            ip(&["-n", name, "address", "add", &format!("{}/32", side.inner), "dev", "lo"])?;
            ip(&["-n", name, "link", "set", "wire", "up"])?;
        }
        Ok(network)
    }

    /// Prepares a command on one side.
    fn command_on(&self, side: usize, program: &str) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.names[side], program]).stdin(Stdio::null());
        command
    }

    /// Runs iperf3 from the near side to the far one. Returns megabits per second, and gigabytes in total.
    fn send(&self, bytes: usize, through_tunnel: bool) -> Result<(f64, f64)> {
        let address = |side: &Side| if through_tunnel { side.inner } else { side.wire };
        let mut server = self.command_on(1, "iperf3");
        let server = server.args(["--server", "--one-off", "--bind", address(&FAR)]).stdout(Stdio::null());
        let mut server = KilledOnDrop(server.spawn()?);
        let begin = Instant::now();
        let value = loop {
            let mut client = self.command_on(0, "iperf3");
            client.args(["--json", "--client", address(&FAR), "--bind", address(&NEAR)]);
            client.args(["--time", &SECONDS.to_string(), "--length", &bytes.to_string()]);
            let output = client.output()?;
            let value: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
            // The server may not be listening yet.
            if value["error"].is_null() || begin.elapsed() > START_TIMEOUT {
                break value;
            }
            thread::sleep(Duration::from_millis(100));
        };
        let _ = server.0.wait();
        let sum = &value["end"]["sum_received"];
        match (sum["bits_per_second"].as_f64(), sum["bytes"].as_f64()) {
            (Some(bits), Some(bytes)) if bytes > 0.0 => Ok((bits / 1e6, bytes / 1e9)),
            _ => Err(format!("iperf3: {}", value["error"].as_str().unwrap_or("nothing arrived")).into()),
        }
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        for name in &self.names {
            let _ = ip(&["netns", "delete", name]);
        }
    }
}

/// A data path on each side.
struct Tunnel {
    sides: Vec<KilledOnDrop>,
}

impl Tunnel {
    fn new(network: &Network, settings: &[&str]) -> Result<Self> {
        let program = gantry_path().to_string_lossy().into_owned();
        let mut tunnel = Self { sides: Vec::new() };
        for side in 0..2 {
            let folder = folder(network, side);
            // The sockets of the previous data path would look like the sockets of this data path.
            let _ = fs::remove_dir_all(&folder);
            let mut serve = network.command_on(side, &program);
            serve
                .args(settings.iter().flat_map(|setting| ["--set", setting]))
                .args(["esp", "serve", "--folder"])
                .arg(&folder);
            let child = serve.stderr(Stdio::piped()).spawn()?;
            tunnel.sides.push(KilledOnDrop(child));
            tunnel.wait_for(side, &folder.join("status"))?;
            let xfrm = |words: &[&str]| {
                let mut command = network.command_on(side, &program);
                command.args(["esp", "exec", "--folder"]).arg(&folder).args(["--", "ip", "xfrm"]).args(words);
                run_command(command, "ip xfrm")
            };
            for (from, to, spi) in [(NEAR, FAR, "0x91001"), (FAR, NEAR, "0x91002")] {
                let name = ["state", "add", "src", from.wire, "dst", to.wire, "proto", "esp", "spi", spi];
                let mode = ["reqid", "1", "mode", "tunnel", "replay-window", "32", "flag", "af-unspec"];
                xfrm(&[&name[..], &mode, &ALGORITHMS, &["4500", "4500", "0.0.0.0"]].concat())?;
                let direction = if from.name == [NEAR.name, FAR.name][side] { "out" } else { "in" };
                let selector = ["policy", "add", "src", from.inner, "dst", to.inner, "dir", direction];
                let template =
                    ["tmpl", "src", from.wire, "dst", to.wire, "proto", "esp", "reqid", "1", "mode", "tunnel"];
                xfrm(&[&selector[..], &template].concat())?;
            }
        }
        Ok(tunnel)
    }

    /// Waits until a data path is ready.
    fn wait_for(&mut self, side: usize, socket: &Path) -> Result<()> {
        let begin = Instant::now();
        while !socket.exists() {
            let has_ended = self.sides[side].0.try_wait().ok().flatten().is_some();
            if has_ended || begin.elapsed() > START_TIMEOUT {
                let mut errors = String::new();
                let _ = self.sides[side].0.kill();
                let _ = self.sides[side].0.stderr.take().map(|mut stderr| stderr.read_to_string(&mut errors));
                return Err(format!("a data path did not start: {}", errors.trim()).into());
            }
            thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    /// Returns the CPU seconds of each side.
    fn cpu_seconds(&self) -> [f64; 2] {
        let ticks = nix::unistd::sysconf(nix::unistd::SysconfVar::CLK_TCK).ok().flatten().unwrap_or(100) as f64;
        [0, 1].map(|side: usize| {
            let stat = fs::read_to_string(format!("/proc/{}/stat", self.sides[side].0.id())).unwrap_or_default();
            // utime and stime are the 12th and 13th field after the name, which may contain blanks (proc(5)).
            let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
            fields.skip(11).take(2).filter_map(|field| field.parse::<f64>().ok()).sum::<f64>() / ticks
        })
    }
}

/// A process that is killed on drop.
struct KilledOnDrop(Child);

impl Drop for KilledOnDrop {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn folder(network: &Network, side: usize) -> PathBuf {
    network.folder.path().join([NEAR.name, FAR.name][side])
}

fn ip(words: &[&str]) -> Result<()> {
    let mut command = Command::new("ip");
    command.args(words);
    run_command(command, "ip")
}

fn run_command(mut command: Command, name: &str) -> Result<()> {
    let output = command.output()?;
    let text = String::from_utf8_lossy(&output.stderr);
    if output.status.success() { Ok(()) } else { Err(format!("{name}: {}", text.trim()).into()) }
}
