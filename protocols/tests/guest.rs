//! ESP and IPComp with the Linux kernel as the peer, in both directions: tunnel and transport mode, every suite, and IPComp inside ESP.

mod common;

use std::io::{self, Read as _, Write as _};
use std::mem::MaybeUninit;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use common::{ipv4, suites};
use gantry_core::{Algorithm, Gantry, SessionParams};
use gantry_driver_lanes::LanesDriver;
use gantry_driver_software::SoftwareDriver;
use gantry_protocols::Packet;
use gantry_protocols::esp::{Association, Integrity, Mode, Suite};
use gantry_protocols::ipcomp;
use socket2::{Domain, Protocol, Socket, Type};

const KERNEL: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 1);
const OURS: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 2);

/// Runs commands of `ip`, one per line.
fn ip(commands: &str) {
    let mut ip = Command::new("ip").args(["-batch", "-"]).stdin(Stdio::piped()).spawn().expect("ip of iproute2");
    ip.stdin.take().unwrap().write_all(commands.as_bytes()).unwrap();
    assert!(ip.wait().unwrap().success(), "{commands}");
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold("0x".to_owned(), |text, byte| format!("{text}{byte:02x}"))
}

/// Returns a suite's parameters for `ip xfrm state`, with keys.
fn xfrm_algorithms(suite: Suite, key: &[u8], integrity_key: &[u8]) -> String {
    let (key, mac_key) = (hex(key), hex(integrity_key));
    let auth = |integrity| match integrity {
        Integrity::HmacSha1 => format!("auth-trunc hmac(sha1) {mac_key} 96"),
        Integrity::HmacSha256 => format!("auth-trunc hmac(sha256) {mac_key} 128"),
        Integrity::HmacSha256_96 => format!("auth hmac(sha256) {mac_key}"),
        Integrity::HmacSha384 => format!("auth-trunc hmac(sha384) {mac_key} 192"),
        _ => format!("auth-trunc hmac(sha512) {mac_key} 256"),
    };
    match suite {
        Suite::AesGcm { icv } => format!("aead rfc4106(gcm(aes)) {key} {}", u32::from(icv) * 8),
        Suite::AesCcm { icv } => format!("aead rfc4309(ccm(aes)) {key} {}", u32::from(icv) * 8),
        Suite::AesGmac => format!("aead rfc4543(gcm(aes)) {key} 128"),
        Suite::ChaCha20Poly1305 => format!("aead rfc7539esp(chacha20,poly1305) {key} 128"),
        Suite::AesCbc(integrity) => format!("{} enc cbc(aes) {key}", auth(integrity)),
        Suite::AesCtr(integrity) => format!("{} enc rfc3686(ctr(aes)) {key}", auth(integrity)),
        Suite::Null(integrity) => format!("{} enc ecb(cipher_null) ''", auth(integrity)),
        _ => unreachable!("{suite:?}"),
    }
}

/// Adds both addresses to this machine, and applies IPsec to the traffic between them.
fn set_up() {
    ip(&format!("link set lo up\naddress add {KERNEL}/32 dev lo\naddress add {OURS}/32 dev lo\n"));
    for (name, value) in
        [("lo/disable_xfrm", "0"), ("lo/disable_policy", "0"), ("all/accept_local", "1"), ("lo/accept_local", "1")]
    {
        std::fs::write(format!("/proc/sys/net/ipv4/conf/{name}"), value).unwrap();
    }
}

/// Returns a socket that receives all packets of a protocol sent to our address.
fn raw_socket(protocol: u8) -> Socket {
    let raw = Socket::new(Domain::IPV4, Type::RAW, Some(Protocol::from(i32::from(protocol)))).unwrap();
    raw.bind(&SocketAddr::from((OURS, 0)).into()).unwrap();
    raw.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    raw
}

/// Receives the next packet, with its header.
fn receive_packet(raw: &Socket) -> io::Result<Vec<u8>> {
    let mut buffer = vec![MaybeUninit::new(0); 1 << 16];
    let length = raw.recv(&mut buffer)?;
    // SAFETY: every byte of the buffer is initialized at its creation.
    Ok(buffer[..length].iter().map(|byte| unsafe { byte.assume_init() }).collect())
}

/// Returns a UDP packet from us to the kernel.
fn udp_packet(payload: &[u8]) -> Vec<u8> {
    // A checksum of 0 means none.
    let udp = [9001_u16, 9000, 8 + payload.len() as u16, 0].map(u16::to_be_bytes).concat();
    local_packet(17, &[&udp, payload].concat())
}

/// Returns an IP packet from us to the kernel.
fn local_packet(protocol: u8, payload: &[u8]) -> Vec<u8> {
    let mut packet = ipv4(payload);
    packet[9..12].copy_from_slice(&[protocol, 0, 0]);
    packet[12..20].copy_from_slice(&[OURS.octets(), KERNEL.octets()].concat());
    let checksum = !common::sum(&packet[..20]);
    packet[10..12].copy_from_slice(&checksum.to_be_bytes());
    packet
}

gantry_lab::in_guest! {
    ["--timeout", "300", "--modules", "esp4 xfrm_user gcm ccm ctr cbc authenc authencesn echainiv seqiv chacha20poly1305 sha512_generic crypto_null"]
    fn the_kernel_and_gantry_open_each_others_packets() {
        set_up();
        let raw = raw_socket(50);
        let udp = UdpSocket::bind((KERNEL, 9000)).unwrap();
        udp.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        let gantry = Gantry::builder().driver(&LanesDriver::default()).driver(&SoftwareDriver).build();

        let mut spi = 0x1000;
        for (suite, key, mac_key) in suites() {
            for (mode, name) in [(Mode::Tunnel, "tunnel"), (Mode::Transport, "transport")] {
                let numbers = if suite == Suite::AesGmac { &[false][..] } else { &[false, true] };
                for &extended in numbers {
                    spi += 2;
                    let key = |seed: u8| (0..key).map(|at| at as u8 ^ seed).collect::<Vec<u8>>();
                    let mac_key = |seed: u8| (0..mac_key).map(|at| at as u8 ^ seed).collect::<Vec<u8>>();
                    // Starts near the end of the lower half, to cross it.
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
                        let algorithms = xfrm_algorithms(suite, &key(seed), &mac_key(seed));
                        commands.push(format!("xfrm state add src {from} dst {to} proto esp spi {spi} mode {name} {flags} {algorithms}"));
                        commands.push(format!("xfrm policy add src {from} dst {to} proto udp dir {direction} tmpl src {from} dst {to} proto esp mode {name}"));
                    }
                    ip(&commands.join("\n"));
                    let from_kernel = association(spi, 1).inbound(&gantry).unwrap();
                    let to_kernel = association(spi + 1, 2).outbound(&gantry).unwrap();
                    for length in [0_usize, 1, 31, 1300] {
                        let payload = vec![length as u8; length];
                        udp.send_to(&payload, (OURS, 9001)).unwrap();
                        let mut whole = receive_packet(&raw).unwrap_or_else(|error| panic!("{suite:?} {name} {extended}: {error}"));
                        let length = whole.len();
                        // A raw socket also returns the IP header. In tunnel mode it is not part of the ESP packet.
                        let start = if mode == Mode::Tunnel { 20 } else { 0 };
                        let mut packet = Packet::new(&mut whole, start..length);
                        from_kernel.open(&mut packet).unwrap_or_else(|reason| panic!("{suite:?} {name} {extended}: {reason}"));
                        let udp_header = [9000_u16, 9001, 8 + payload.len() as u16].map(u16::to_be_bytes).concat();
                        assert_eq!((&packet.data()[20..26], &packet.data()[28..]), (&udp_header[..], &payload[..]), "{suite:?} {name}");

                        let ip_packet = udp_packet(&payload);
                        let mut buffer = [&[0; 64][..], &ip_packet, &[0; 64]].concat();
                        let mut packet = Packet::new(&mut buffer, 64..64 + ip_packet.len());
                        to_kernel.seal(&mut packet).unwrap();
                        // The socket writes the IP header: the outer header in tunnel mode, or a header equal to ours in transport mode.
                        let esp = &packet.data()[if mode == Mode::Tunnel { 0 } else { 20 }..];
                        raw.send_to(esp, &SocketAddr::from((KERNEL, 0)).into()).unwrap();
                        let mut received = [0; 2048];
                        let begin = Instant::now();
                        let (length, from) = udp.recv_from(&mut received).unwrap_or_else(|error| {
                            let stats = std::fs::read_to_string("/proc/net/xfrm_stat").unwrap_or_default();
                            panic!("{suite:?} {name} {extended}, after {:?}: {error}\n{stats}", begin.elapsed())
                        });
                        assert_eq!((&received[..length], from), (&payload[..], SocketAddr::from((OURS, 9001))), "{suite:?} {name}");
                    }
                }
            }
        }
    }

    ["--timeout", "300", "--modules", "esp4 ipcomp xfrm4_tunnel xfrm_user deflate gcm seqiv"]
    fn the_kernel_and_gantry_decompress_each_others_packets() {
        const ESP: u8 = 50;
        const CPI: u16 = 0x1235;
        set_up();
        let (compressed, sealed, plain) = (raw_socket(ipcomp::PROTOCOL), raw_socket(ESP), [raw_socket(17), raw_socket(4)]);
        let to_kernel = Socket::new(Domain::IPV4, Type::RAW, Some(Protocol::from(255))).unwrap();
        let udp = UdpSocket::bind((KERNEL, 9000)).unwrap();
        udp.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        let gantry = Gantry::builder().driver(&SoftwareDriver).build();
        let session = gantry.session(SessionParams::new(Algorithm::Deflate, &[]).with_level(9)).unwrap();
        let noise = |length: usize| {
            let mut bytes = vec![0; length];
            std::fs::File::open("/dev/urandom").unwrap().read_exact(&mut bytes).unwrap();
            bytes
        };
        let words = |length: usize| (0..length).map(|at| b"the words of a packet "[at * at % 97 % 22]).collect::<Vec<u8>>();
        // Repeats after 9,000 bytes: beyond the window of 2,048 bytes with which the kernel compresses.
        let far = noise(9_000).repeat(3);

        for (mode, name) in [(Mode::Transport, "transport"), (Mode::Tunnel, "tunnel")] {
            for within in [false, true] {
                let mut commands = vec!["xfrm state flush".to_owned(), "xfrm policy flush".to_owned()];
                for (from, to, number, direction) in [(KERNEL, OURS, 0, "out"), (OURS, KERNEL, 1, "in")] {
                    let cpi = CPI + number;
                    commands.push(format!("xfrm state add src {from} dst {to} proto comp spi {cpi:#x} mode {name} comp deflate"));
                    // `use`: packets that did not shrink arrive uncompressed.
                    let level = if direction == "in" { "level use" } else { "" };
                    let mut templates = vec![format!("tmpl src {from} dst {to} proto comp mode {name} {level}")];
                    if within {
                        let algorithm = xfrm_algorithms(Suite::AesGcm { icv: 16 }, &[number as u8; 20], &[]);
                        commands.push(format!("xfrm state add src {from} dst {to} proto esp spi {:#x} mode transport replay-window 32 {algorithm}", 0x5000 + number));
                        templates.push(format!("tmpl src {from} dst {to} proto esp mode transport"));
                    }
                    commands.push(format!("xfrm policy add src {from} dst {to} proto udp dir {direction} {}", templates.join(" ")));
                }
                ip(&commands.join("\n"));
                let made = |cpi| ipcomp::Association::new(cpi, &session).mode(mode);
                let (from_kernel, compress) = (made(CPI).inbound().unwrap(), made(CPI + 1).outbound().unwrap());
                // We read and write the outer header here. ESP follows it. The payload of ESP is IPComp or the packet itself.
                let esp_mode = if mode == Mode::Tunnel { Mode::Payload } else { mode };
                let esp = |number: u16| Association::new(0x5000 + u32::from(number), Suite::AesGcm { icv: 16 }, &[number as u8; 20], &[]).mode(esp_mode);
                let (open, seal) = (esp(0).inbound(&gantry).unwrap(), esp(1).outbound(&gantry).unwrap());
                let outer = if mode == Mode::Tunnel { 20 } else { 0 };

                for (payload, shorter) in [
                    (vec![], false), (vec![7; 50], false), (vec![7; 83], true), (words(300), true), (noise(1_300), false), (words(1_300), true),
                    (vec![0; 9_000], true), (words(30_000), true), (far.clone(), true), (vec![0; 60_000], true),
                ] {
                    let case = format!("{} bytes, {name}, in ESP: {within}", payload.len());
                    udp.send_to(&payload, (OURS, 9001)).unwrap();
                    let received = match (within, shorter, mode) {
                        (true, _, _) => &sealed,
                        (false, true, _) if payload != far => &compressed,
                        (_, _, Mode::Tunnel) => &plain[1],
                        _ => &plain[0],
                    };
                    let mut whole = receive_packet(received).unwrap_or_else(|error| panic!("{case}: {error}"));
                    let (length, protocol) = (whole.len(), whole[9]);
                    whole.resize(1 << 16, 0);
                    let mut packet = Packet::new(&mut whole, outer..length);
                    packet.next_header = protocol;
                    if within {
                        open.open(&mut packet).unwrap_or_else(|reason| panic!("{case}: {reason}"));
                    }
                    let is_compressed = packet.next_header == ipcomp::PROTOCOL;
                    assert_eq!(is_compressed, shorter && payload != far, "{case}");
                    if is_compressed {
                        from_kernel.decompress(&mut packet).unwrap_or_else(|reason| panic!("{case}: {reason}"));
                    }
                    let udp_header = [9000_u16, 9001, 8 + payload.len() as u16].map(u16::to_be_bytes).concat();
                    assert!((&packet.data()[20..26], &packet.data()[28..]) == (&udp_header[..], &payload[..]), "{case}");
                    assert_eq!(packet.next_header, if mode == Mode::Tunnel { 4 } else { 17 });

                    let ip_packet = udp_packet(&payload);
                    let mut buffer = [&[0; 64][..], &ip_packet, &[0; 64]].concat();
                    let mut packet = Packet::new(&mut buffer, 64..64 + ip_packet.len());
                    compress.compress(&mut packet).unwrap();
                    assert_eq!(packet.next_header == ipcomp::PROTOCOL, shorter, "{case}");
                    let mut protocol = packet.next_header;
                    if within {
                        seal.seal(&mut packet).unwrap();
                        protocol = ESP;
                    }
                    let whole = if mode == Mode::Tunnel { local_packet(protocol, packet.data()) } else { packet.data().to_vec() };
                    to_kernel.send_to(&whole, &SocketAddr::from((KERNEL, 0)).into()).unwrap();
                    let mut received = vec![0; 1 << 16];
                    let (length, from) = udp.recv_from(&mut received).unwrap_or_else(|error| {
                        let stats = std::fs::read_to_string("/proc/net/xfrm_stat").unwrap_or_default();
                        panic!("{case}: {error}\n{stats}")
                    });
                    assert!(received[..length] == payload[..] && from == SocketAddr::from((OURS, 9001)), "{case}");
                    // The raw sockets also got copies of the packets we sent; drop them.
                    for raw in [&compressed, &sealed, &plain[0], &plain[1]] {
                        raw.set_nonblocking(true).unwrap();
                        while receive_packet(raw).is_ok() {}
                        raw.set_nonblocking(false).unwrap();
                    }
                }
            }
        }
    }
}
