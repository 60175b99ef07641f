//! Measures the CPU time of a back end per virtio-crypto request of AES-128-CBC, for bytes x requests in flight.
//!
//!     cargo run --release -p gantry-vhost-user-front --example vhost-bench
//!     cargo run --release -p gantry-vhost-user-front --example vhost-bench -- rates SOCKET PID qemu7|qemu10|dpdk22 BYTESxDEPTH...
//!
//! Without arguments it starts Gantry's server in a process of its own. It prints three tables, also as JSON: one guest, two guests with
//! 8 requests in flight each, and a guest while a second guest misbehaves or is limited. `rates` prints the first table for any running
//! back end; `benches/vhost` runs it for DPDK.
//!
//! CPU time is the sum over all threads of the back end (/proc/PID/task/*/schedstat). Each number is the median of five rounds of a second.
//! A polling back end always uses its whole core. Its cost of a request is the minimum of the rounds, if the front end keeps up.
//!
//! | file | content |
//! |---|---|
//! | `cpu.rs` | CPU time of a process |
//! | `server.rs` | Gantry's server |
//! | `rates.rs` | one guest |
//! | `guests.rs` | two guests |

#![allow(clippy::cast_precision_loss, reason = "numbers for people")]

mod cpu;
mod guests;
mod rates;
mod server;

use std::error::Error;

use gantry_vhost_user_front::parameters::Layout;
use serde_json::json;

/// The rows of the table of one guest: bytes x requests in flight.
const PAIRS: [&str; 6] = ["64x1", "64x32", "1024x32", "2048x32", "4096x32", "65536x32"];

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words[..] {
        [] => {
            let server = server::ServerProcess::new(&[0])?;
            let rows = rates::measure(&server.socket(0), server.pid(), Layout::Qemu10, &rates::parse_pairs(&PAIRS)?);
            drop(server);
            let tables = json!({ "rates": rows, "together": guests::measure_pairs()?, "beside": guests::measure_interference()? });
            println!("\n{tables:#}");
            Ok(())
        }
        ["serve", folder, ref limits @ ..] => server::serve(folder.as_ref(), limits),
        ["rates", socket, pid, layout, ref pairs @ ..] => {
            let rows =
                rates::measure(socket.as_ref(), pid.parse()?, layout_named(layout)?, &rates::parse_pairs(pairs)?);
            println!("\n{:#}", json!({ "rates": rows }));
            Ok(())
        }
        _ => Err("vhost-bench [rates SOCKET PID qemu7|qemu10|dpdk22 BYTESxDEPTH...]".into()),
    }
}

fn layout_named(layout: &str) -> Result<Layout, Box<dyn Error>> {
    let layouts = [("qemu7", Layout::Qemu7), ("qemu10", Layout::Qemu10), ("dpdk22", Layout::Dpdk22)];
    let found = layouts.into_iter().find(|(name, _)| *name == layout);
    Ok(found.ok_or_else(|| format!("there is no layout {layout}"))?.1)
}
