//! What a request of virtio-crypto costs a back end: its CPU time, AES-128-CBC, for bytes x requests in flight.
//!
//!     cargo run --release -p gantry-vhost-user-front --example vhost-bench
//!     cargo run --release -p gantry-vhost-user-front --example vhost-bench -- rates SOCKET PID qemu7|qemu10|dpdk22 BYTESxDEPTH...
//!
//! Without arguments it starts Gantry's server in a process of its own and prints three tables, and the same as JSON: one guest, two guests
//! with 8 requests in flight each, and a guest beside one that floods, one that lies, and one at its cap. `rates` is the first table for
//! any back end that runs already; `benches/vhost` has DPDK's.
//!
//! CPU time is that of all threads of the back end (/proc/PID/task/*/schedstat). Each number is the median of five rounds of a second.
//! A back end that polls spends its whole core, whatever it does: of such a one the least of the rounds says what a request costs while
//! the front end keeps up.
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

/// The table of one guest.
const PAIRS: [&str; 6] = ["64x1", "64x32", "1024x32", "2048x32", "4096x32", "65536x32"];

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words[..] {
        [] => {
            let served = server::Served::new(&[0])?;
            let rows = rates::measure(&served.socket(0), served.pid(), Layout::Qemu10, &rates::pairs(&PAIRS)?);
            drop(served);
            let tables = json!({ "rates": rows, "together": guests::together()?, "beside": guests::beside()? });
            println!("\n{tables:#}");
            Ok(())
        }
        ["serve", folder, ref limits @ ..] => server::serve(folder.as_ref(), limits),
        ["rates", socket, pid, layout, ref pairs @ ..] => {
            let rows = rates::measure(socket.as_ref(), pid.parse()?, named(layout)?, &rates::pairs(pairs)?);
            println!("\n{:#}", json!({ "rates": rows }));
            Ok(())
        }
        _ => Err("vhost-bench [rates SOCKET PID qemu7|qemu10|dpdk22 BYTESxDEPTH...]".into()),
    }
}

fn named(layout: &str) -> Result<Layout, Box<dyn Error>> {
    let layouts = [("qemu7", Layout::Qemu7), ("qemu10", Layout::Qemu10), ("dpdk22", Layout::Dpdk22)];
    let found = layouts.into_iter().find(|(name, _)| *name == layout);
    Ok(found.ok_or_else(|| format!("there is no layout {layout}"))?.1)
}
