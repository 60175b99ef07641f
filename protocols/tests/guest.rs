//! ESP with the Linux kernel at the other end: each opens what the other has sealed. Tunnel and transport mode, every suite.

mod common;

use std::io::Write as _;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use common::suites;
use gantry::Gantry;
use gantry_driver_lanes::LanesDriver;
use gantry_driver_software::SoftwareDriver;
use gantry_protocols::Packet;
use gantry_protocols::esp::{Association, Integrity, Mode, Suite};
use socket2::{Domain, Protocol, Socket, Type};

const KERNEL: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 1);
const OURS: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 2);

/// Commands of `ip`, a line each.
fn ip(commands: &str) {
    let mut ip = Command::new("ip").args(["-batch", "-"]).stdin(Stdio::piped()).spawn().expect("ip of iproute2");
    ip.stdin.take().unwrap().write_all(commands.as_bytes()).unwrap();
    assert!(ip.wait().unwrap().success(), "{commands}");
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold("0x".to_owned(), |text, byte| format!("{text}{byte:02x}"))
}

/// What `ip xfrm state` calls a suite, with keys.
fn kernels(suite: Suite, key: &[u8], integrity_key: &[u8]) -> String {
    let (key, mac_key) = (hex(key), hex(integrity_key));
    let auth = |integrity| match integrity {
        Integrity::HmacSha1 => format!("auth-trunc hmac(sha1) {mac_key} 96"),
        Integrity::HmacSha256 => format!("auth-trunc hmac(sha256) {mac_key} 128"),
        Integrity::HmacSha384 => format!("auth-trunc hmac(sha384) {mac_key} 192"),
        _ => format!("auth-trunc hmac(sha512) {mac_key} 256"),
    };
    match suite {
        Suite::AesGcm { icv } => format!("aead rfc4106(gcm(aes)) {key} {}", u32::from(icv) * 8),
        Suite::ChaCha20Poly1305 => format!("aead rfc7539esp(chacha20,poly1305) {key} 128"),
        Suite::AesCbc(integrity) => format!("{} enc cbc(aes) {key}", auth(integrity)),
        Suite::AesCtr(integrity) => format!("{} enc rfc3686(ctr(aes)) {key}", auth(integrity)),
        Suite::Null(integrity) => format!("{} enc ecb(cipher_null) ''", auth(integrity)),
        _ => unreachable!("{suite:?}"),
    }
}

gantry_lab::in_guest! {
    ["--timeout", "300", "--modules", "esp4 xfrm_user gcm ccm ctr cbc authenc authencesn echainiv seqiv chacha20poly1305 sha512_generic crypto_null"]
    fn the_kernel_and_we_open_what_the_other_sealed() {
        ip(&format!("link set lo up\naddress add {KERNEL}/32 dev lo\naddress add {OURS}/32 dev lo\n"));
        for (name, value) in [("lo/disable_xfrm", "0"), ("lo/disable_policy", "0"), ("all/accept_local", "1"), ("lo/accept_local", "1")] {
            std::fs::write(format!("/proc/sys/net/ipv4/conf/{name}"), value).unwrap();
        }
        // Ours is all of protocol 50 that comes to our address.
        let raw = Socket::new(Domain::IPV4, Type::RAW, Some(Protocol::from(50))).unwrap();
        raw.bind(&SocketAddr::from((OURS, 0)).into()).unwrap();
        raw.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        let udp = UdpSocket::bind((KERNEL, 9000)).unwrap();
        udp.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        let gantry = Gantry::builder().driver(&LanesDriver::default()).driver(&SoftwareDriver).build();

        let mut spi = 0x1000;
        for (suite, key, mac_key) in suites() {
            for (mode, name) in [(Mode::Tunnel, "tunnel"), (Mode::Transport, "transport")] {
                for extended in [false, true] {
                    spi += 2;
                    let key = |seed: u8| (0..key).map(|at| at as u8 ^ seed).collect::<Vec<u8>>();
                    let mac_key = |seed: u8| (0..mac_key).map(|at| at as u8 ^ seed).collect::<Vec<u8>>();
                    // What begins near the end of the lower half goes over it.
                    let last: u64 = if extended { 0x3_FFFF_FFFD } else { 7 };
                    let association = |spi, seed: u8| {
                        let made = Association::new(spi, suite, &key(seed), &mac_key(seed)).mode(mode).last_number(last);
                        if extended { made.extended_numbers() } else { made }
                    };
                    let flags = if extended {
                        format!("flag esn replay-window 64 replay-oseq {:#x} replay-oseq-hi 3 replay-seq {:#x} replay-seq-hi 3", last as u32, last as u32)
                    } else {
                        format!("replay-window 32 replay-oseq {last} replay-seq {last}")
                    };
                    let mut commands = vec!["xfrm state flush".to_owned(), "xfrm policy flush".to_owned()];
                    for (from, to, spi, seed, direction) in [(KERNEL, OURS, spi, 1, "out"), (OURS, KERNEL, spi + 1, 2, "in")] {
                        let algorithms = kernels(suite, &key(seed), &mac_key(seed));
                        commands.push(format!("xfrm state add src {from} dst {to} proto esp spi {spi} mode {name} {flags} {algorithms}"));
                        commands.push(format!("xfrm policy add src {from} dst {to} proto udp dir {direction} tmpl src {from} dst {to} proto esp mode {name}"));
                    }
                    ip(&commands.join("\n"));
                    let from_kernel = association(spi, 1).inbound(&gantry).unwrap();
                    let to_kernel = association(spi + 1, 2).outbound(&gantry).unwrap();
                    for length in [0_usize, 1, 31, 1300] {
                        let payload = vec![length as u8; length];
                        udp.send_to(&payload, (OURS, 9001)).unwrap();
                        let mut buffer = vec![std::mem::MaybeUninit::new(0); 4096];
                        let length = raw.recv(&mut buffer).unwrap_or_else(|error| panic!("{suite:?} {name} {extended}: {error}"));
                        // SAFETY: they were all written when they were made.
                        let mut whole: Vec<u8> = buffer[..length].iter().map(|byte| unsafe { byte.assume_init() }).collect();
                        // A raw socket gives the header of IP, too, which in a tunnel is the caller's.
                        let start = if mode == Mode::Tunnel { 20 } else { 0 };
                        let mut packet = Packet::new(&mut whole, start..length);
                        from_kernel.open(&mut packet).unwrap_or_else(|why| panic!("{suite:?} {name} {extended}: {why}"));
                        let udp_header = [9000_u16, 9001, 8 + payload.len() as u16].map(u16::to_be_bytes).concat();
                        assert_eq!((&packet.data()[20..26], &packet.data()[28..]), (&udp_header[..], &payload[..]), "{suite:?} {name}");

                        let mut ip_packet = vec![0x45, 0, 0, 0, 0, 0, 0, 0, 64, 17, 0, 0, 10, 9, 0, 2, 10, 9, 0, 1];
                        ip_packet[2..4].copy_from_slice(&(28 + payload.len() as u16).to_be_bytes());
                        let sum: u32 = ip_packet.chunks(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]]))).sum();
                        ip_packet[10..12].copy_from_slice(&(!((sum & 0xFFFF) + (sum >> 16)) as u16).to_be_bytes());
                        // A checksum of 0 is none.
                        ip_packet.extend([9001_u16, 9000, 8 + payload.len() as u16, 0].map(u16::to_be_bytes).concat());
                        ip_packet.extend(&payload);
                        let mut buffer = [&[0; 64][..], &ip_packet, &[0; 64]].concat();
                        let mut packet = Packet::new(&mut buffer, 64..64 + ip_packet.len());
                        to_kernel.seal(&mut packet).unwrap();
                        // The socket writes the outer header, or one like ours.
                        let esp = &packet.data()[if mode == Mode::Tunnel { 0 } else { 20 }..];
                        raw.send_to(esp, &SocketAddr::from((KERNEL, 0)).into()).unwrap();
                        let mut came = [0; 2048];
                        let begin = Instant::now();
                        let (length, from) = udp.recv_from(&mut came).unwrap_or_else(|error| {
                            let stats = std::fs::read_to_string("/proc/net/xfrm_stat").unwrap_or_default();
                            panic!("{suite:?} {name} {extended}, after {:?}: {error}\n{stats}", begin.elapsed())
                        });
                        assert_eq!((&came[..length], from), (&payload[..], SocketAddr::from((OURS, 9001))), "{suite:?} {name}");
                    }
                }
            }
        }
    }
}
