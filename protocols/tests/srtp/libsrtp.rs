//! libsrtp2 as the peer: each side opens the packets of the other.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::{env, fs, process, thread};

use gantry_protocols::srtp::{Context, Suite};

use super::Protocol::{self, Rtcp, Rtp};
use super::common::{devices, gantry, hex};
use super::{SSRC, SUITES, open_as, rtcp, rtp, try_seal};

/// The names of the suites, in the order of [`SUITES`].
const NAMES: [&str; 6] = [
    "AES_CM_128_HMAC_SHA1_80",
    "AES_CM_128_HMAC_SHA1_32",
    "AES_256_CM_HMAC_SHA1_80",
    "AES_256_CM_HMAC_SHA1_32",
    "AEAD_AES_128_GCM",
    "AEAD_AES_256_GCM",
];

/// The parameters that both ends share.
struct Parameters {
    name: &'static str,
    suite: Suite,
    key: Vec<u8>,
    salt: Vec<u8>,
    mki: &'static [u8],
    is_control_clear: bool,
}

impl Parameters {
    fn all() -> impl Iterator<Item = Self> {
        let mkis = [&b""[..], b"key 17", b"x"];
        NAMES.into_iter().zip(SUITES).enumerate().flat_map(move |(seed, (name, (suite, key, salt, ..)))| {
            mkis.into_iter().flat_map(move |mki| {
                [false, true].map(|is_control_clear| {
                    let bytes = |from: u8, count: usize| (0..count).map(|at| from + at as u8).collect();
                    let (key, salt) = (bytes(seed as u8, key), bytes(100 + seed as u8, salt));
                    Self { name, suite, key, salt, mki, is_control_clear }
                })
            })
        })
    }

    fn context(&self) -> Context {
        let made = Context::new(self.suite, &self.key, &self.salt).mki(self.mki);
        if self.is_control_clear { made.unencrypted_control() } else { made }
    }

    /// Runs packets through libsrtp2. Returns, for each packet, the resulting packet or the reason for its refusal.
    fn peer(&self, step: &str, packets: &[(Protocol, Vec<u8>)]) -> Vec<String> {
        let text = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().concat();
        let mut lines = String::new();
        for (protocol, packet) in packets {
            let protocol = if *protocol == Rtp { "rtp" } else { "rtcp" };
            writeln!(lines, "{step} {protocol} {}", text(packet)).unwrap();
        }
        let services = if self.is_control_clear { "authentication" } else { "both" };
        let key = text(&[&self.key[..], &self.salt].concat());
        let mut child = Command::new(program())
            .args([self.name, &key, &text(self.mki), services])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut input = child.stdin.take().unwrap();
        let writes = thread::spawn(move || input.write_all(lines.as_bytes()).unwrap());
        let output = child.wait_with_output().unwrap();
        writes.join().unwrap();
        assert!(output.status.success(), "{}: {}", self.name, output.status);
        String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
    }
}

/// Returns the peer's program, compiled once.
fn program() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
        let (unfinished, program) = (folder.join(format!("libsrtp-{}", process::id())), folder.join("libsrtp"));
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/srtp/libsrtp.c");
        let compiled =
            Command::new("cc").args(["-Wall", "-Werror", "-o"]).arg(&unfinished).args([source, "-lsrtp2"]).status();
        assert!(compiled.unwrap().success());
        // Renamed at the end, because another run of these tests may be about to start it.
        fs::rename(&unfinished, &program).unwrap();
        program
    })
}

fn is_installed() -> bool {
    let has_header = Path::new("/usr/include/srtp2/srtp.h").exists();
    if !has_header {
        gantry_lab::skip("libsrtp2-dev");
    }
    has_header
}

/// Returns RTP packets of two streams across a rollover, of many lengths and with all header fields, and RTCP reports.
fn packets() -> Vec<(Protocol, Vec<u8>)> {
    let mut packets = Vec::new();
    for at in 0..80_u16 {
        let payload: Vec<u8> = (0..at * 3).map(|byte| byte as u8).collect();
        let mut media = rtp(SSRC + u32::from(at % 2), 65_500_u16.wrapping_add(at), &payload);
        if at % 3 == 1 {
            media[0] |= 0x12;
            media.splice(12..12, [1, 1, 1, 1, 2, 2, 2, 2, 0xBE, 0xDE, 0, 1, 0x10, 7, 0, 0]);
        }
        packets.push((Rtp, media));
        packets.push((Rtcp, rtcp(SSRC + u32::from(at % 2), &vec![at as u8; usize::from(at) * 4])));
    }
    packets
}

#[test]
fn libsrtp_opens_our_packets() {
    if !is_installed() {
        return;
    }
    let packets = packets();
    let devices = devices();
    for (parameters, gantry) in Parameters::all().zip(devices.iter().cycle()) {
        let mut packets = packets.clone();
        if parameters.name.ends_with("_32") && !parameters.mki.is_empty() {
            // Before 2.7, libsrtp2 looks for the MKI of RTCP at the offset of RTP's tag length (its pull request 733).
            packets.retain(|(protocol, _)| *protocol == Rtp);
        }
        let outbound = parameters.context().outbound(gantry).unwrap();
        let sealed =
            |(protocol, packet): &(Protocol, Vec<u8>)| (*protocol, try_seal(&outbound, *protocol, packet).unwrap());
        let mut wires: Vec<_> = packets.iter().map(sealed).collect();
        // Reorders some packets.
        wires[30..50].reverse();
        let mut wrong = wires[59].clone();
        *wrong.1.last_mut().unwrap() ^= 1;
        wires.extend([wires[7].clone(), wrong]);
        let answers = parameters.peer("open", &wires);
        let mut expected = packets.clone();
        expected[30..50].reverse();
        assert_eq!(answers.len(), wires.len());
        for (at, ((_, packet), answer)) in expected.iter().zip(&answers).enumerate() {
            assert_eq!(&hex(answer), packet, "{} {at}: {answer}", parameters.name);
        }
        assert!(answers[packets.len()..].iter().all(|answer| answer.starts_with("refused")), "{answers:?}");
    }
}

#[test]
fn opens_the_packets_of_libsrtp() {
    if !is_installed() {
        return;
    }
    let packets = packets();
    let gantry = gantry();
    for parameters in Parameters::all() {
        let mut wires: Vec<_> = parameters.peer("seal", &packets).iter().map(|wire| hex(wire)).collect();
        let mut expected = packets.clone();
        wires[30..50].reverse();
        expected[30..50].reverse();
        let inbound = parameters.context().inbound(&gantry).unwrap();
        for (at, ((protocol, packet), wire)) in expected.iter().zip(&wires).enumerate() {
            assert_eq!(&open_as(&inbound, *protocol, wire).unwrap(), packet, "{} {at}", parameters.name);
        }
        for ((protocol, _), wire) in expected.iter().zip(&wires) {
            assert!(open_as(&inbound, *protocol, wire).is_err());
        }
        assert_eq!(inbound.last_number(SSRC + 1), Some(65_579), "{}", parameters.name);
    }
}
