//! Seals a burst of packets for 32 ESP tunnels in one call, and opens it again: `cargo run --example burst`

use std::error::Error;

use gantry_protocols::Packet;
use gantry_protocols::esp::{self, Association, Mode, Suite};

/// Bytes before and after a packet, for headers and the tag.
const ROOM: usize = 64;

fn main() -> Result<(), Box<dyn Error>> {
    let gantry = gantry_runtime::open(gantry_runtime::Config::from_env()?)?;
    // Real keys come from IKE, and belong to one association only.
    let association = |number: u8| {
        Association::new(0x1000 + u32::from(number), Suite::AesGcm { icv: 16 }, &[number; 20], &[]).mode(Mode::Payload)
    };
    let outbound = (0..32).map(|number| association(number).outbound(&gantry)).collect::<Result<Vec<_>, _>>()?;
    let inbound = (0..32).map(|number| association(number).inbound(&gantry)).collect::<Result<Vec<_>, _>>()?;

    let mut buffers = vec![[7; ROOM + 1400 + ROOM]; outbound.len()];
    let mut packets: Vec<_> = buffers.iter_mut().map(|buffer| Packet::new(buffer, ROOM..ROOM + 1400)).collect();
    esp::seal(&mut outbound.iter().zip(&mut packets).collect::<Vec<_>>());
    println!("sealed: {} packets of {} bytes", packets.len(), packets[0].data().len());

    esp::open(&mut inbound.iter().zip(&mut packets).collect::<Vec<_>>());
    for packet in &packets {
        packet.verdict().map_err(Clone::clone)?;
    }
    println!("opened: {} packets of {} bytes", packets.len(), packets[0].data().len());
    Ok(())
}
