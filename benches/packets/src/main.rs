//! The cost of an ESP packet, sealed and opened in bursts of 32 packets, each of another association.
//!
//!     gantry-bench-packets gcm|cbc BYTES...
//!
//! Prints a row for each size of an IPv4 packet in transport mode: bytes, nanoseconds to seal a packet and to open it. Each is the best
//! of many rounds. `ipsec.c` does the same with DPDK's library, and `benches/packets/run` compares the two.

use std::env;
use std::error::Error;
use std::time::{Duration, Instant};

use gantry_protocols::Packet;
use gantry_protocols::esp::{self, Association, Inbound, Integrity, Mode, Outbound, Suite};
use gantry_runtime::Config;

const PACKETS_PER_BURST: u32 = 32;
const ROUNDS: usize = 200;
/// Bytes of room before and after a packet, for the data that ESP adds.
const ROOM_BYTES: usize = 64;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let (suite, key, integrity_key) = match arguments.first().map(String::as_str) {
        Some("gcm") => (Suite::AesGcm { icv: 16 }, 20, 0),
        Some("cbc") => (Suite::AesCbc(Integrity::HmacSha256), 16, 32),
        _ => return Err("gantry-bench-packets gcm|cbc BYTES...".into()),
    };
    let gantry = gantry_runtime::open(Config::from_env()?)?;
    let ends: Vec<(Outbound, Inbound)> = (0..PACKETS_PER_BURST)
        .map(|at| {
            let make = || {
                Association::new(0x1000 + at, suite, &vec![at as u8; key], &vec![at as u8; integrity_key])
                    .mode(Mode::Transport)
            };
            Ok::<_, Box<dyn Error>>((make().outbound(&gantry)?, make().inbound(&gantry)?))
        })
        .collect::<Result<_, _>>()?;
    for bytes in &arguments[1..] {
        let bytes: usize = bytes.parse()?;
        // Learns routes before the measurement.
        measure_bursts(&ends, bytes, Duration::from_millis(500))?;
        let (mut sealing, mut opening) = (f64::MAX, f64::MAX);
        for _ in 0..ROUNDS {
            let (seal, open) = measure_bursts(&ends, bytes, Duration::from_millis(2))?;
            (sealing, opening) = (sealing.min(seal), opening.min(open));
        }
        println!("{bytes} {sealing:.2} {opening:.2}");
    }
    Ok(())
}

/// Returns nanoseconds to seal a packet and to open it, averaged over a time of at least `at_least`.
fn measure_bursts(
    ends: &[(Outbound, Inbound)],
    bytes: usize,
    at_least: Duration,
) -> Result<(f64, f64), Box<dyn Error>> {
    let mut header = [0x45, 0, 0, 0, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
    header[2..4].copy_from_slice(&(bytes as u16).to_be_bytes());
    let mut buffers = vec![vec![0; ROOM_BYTES + bytes + ROOM_BYTES]; PACKETS_PER_BURST as usize];
    let (mut sealing, mut opening, mut bursts) = (Duration::ZERO, Duration::ZERO, 0_u32);
    while sealing + opening < at_least {
        let begin = Instant::now();
        for buffer in &mut buffers {
            buffer[ROOM_BYTES..ROOM_BYTES + header.len()].copy_from_slice(&header);
        }
        let mut packets: Vec<Packet<'_>> =
            buffers.iter_mut().map(|buffer| Packet::new(buffer, ROOM_BYTES..ROOM_BYTES + bytes)).collect();
        let mut burst: Vec<_> = ends.iter().map(|(outbound, _)| outbound).zip(&mut packets).collect();
        esp::seal(&mut burst);
        let sealed = Instant::now();
        let mut burst: Vec<_> = ends.iter().map(|(_, inbound)| inbound).zip(&mut packets).collect();
        esp::open(&mut burst);
        let opened = Instant::now();
        if let Some(reason) = packets.iter().find_map(|packet| packet.verdict().err()) {
            return Err(reason.clone().into());
        }
        (sealing, opening, bursts) = (sealing + (sealed - begin), opening + (opened - sealed), bursts + 1);
    }
    let ns_per_packet = |time: Duration| time.as_secs_f64() * 1e9 / f64::from(bursts) / f64::from(PACKETS_PER_BURST);
    Ok((ns_per_packet(sealing), ns_per_packet(opening)))
}
