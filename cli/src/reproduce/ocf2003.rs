//! Tables 5, 6 and 7 of the paper with modelled cards, and its Tables 2, 3 and 4 with this machine's own dispatch.

use std::sync::Arc;

use gantry::{Algorithm, Clock, Gantry, Kind, Session, SessionParams, VirtualClock};
use gantry_runtime::model::Profile;

use super::paper::{BYTES, GAIN, Series, THROUGHPUT};
use super::{Row, conclude, deviates, deviation, dispatch, model};
use crate::args::Reproduce;
use crate::output::{Failure, Output};
use crate::table::Table;

/// How far a throughput of ours may be from the paper's.
const THROUGHPUT_WITHIN: f64 = 0.20;
/// How far a gain may be, in points of a percent.
const GAIN_WITHIN: f64 = 10.0;

/// What a request of `cryptotest` costs around the card and its driver.
struct System {
    name: &'static str,
    table: &'static str,
    /// The system call, its copies, the process that sleeps and wakes. 172.4 µs for 3DES with 8192 bytes on the BCM5822 in Table
    /// 5, less the 158.6 µs that dispatch, card, done and callback take in Table 1.
    request_ns: u64,
    /// A thread passes the request to the driver, and another one passes the result back.
    switches: u64,
}

/// One switch of threads, fitted to the difference of Tables 5 and 6.
const SWITCH_NS: u64 = 10_550;
/// After the switches the request's data are no longer in the cache. 3.7 ns a byte are two misses (user's and kernel's copy) of
/// 118 ns for each line of 64 bytes.
const COLD_PS_PER_BYTE: u64 = 3_700;
/// More than this was not in the cache before: 8 KiB of a Pentium 4 hold the two copies of input and output.
const CACHED_BYTES: usize = 2048;

const FREEBSD: System = System { name: "FreeBSD", table: "Table 5", request_ns: 13_800, switches: 0 };
const OPENBSD: System = System { name: "OpenBSD", table: "Table 6", request_ns: 13_800, switches: 2 };

pub(super) fn run(args: &Reproduce, output: &mut Output) -> Result<(), Failure> {
    let mut rows = Vec::new();
    let mut text = throughput(&mut rows)?;
    text += &gain(&mut rows)?;
    if !args.simulated {
        text += &dispatch::measure(&mut rows)?;
    }
    conclude(args, &rows, &text, output)
}

/// Tables 5 and 6.
fn throughput(rows: &mut Vec<Row>) -> Result<String, Failure> {
    let header = ["DEVICE", "ALGORITHM", "BYTES", "FREEBSD 2003", "OURS", "", "OPENBSD 2003", "OURS", ""];
    let mut table = Table::new(&header, &[2, 3, 4, 5, 6, 7, 8]);
    let mut worst = 0_f64;
    for Series { device, algorithm, freebsd, openbsd } in &THROUGHPUT {
        for (index, &bytes) in BYTES.iter().enumerate() {
            let mut cells = vec![(*device).to_owned(), algorithm.name().to_owned(), bytes.to_string()];
            for (system, published) in [(FREEBSD, freebsd[index]), (OPENBSD, openbsd[index])] {
                let found = megabits(&system, device, *algorithm, bytes)?;
                let case = format!("{device} {algorithm} {bytes} bytes, {}", system.name);
                let row = Row::new(system.table, case, "Mb/s", Some(published), found);
                let bounds = [1.0 - THROUGHPUT_WITHIN, 1.0 + THROUGHPUT_WITHIN].map(|share| Some(share * published));
                rows.push(row.within(bounds[0], bounds[1]));
                worst = worst.max(deviation(published, found).abs());
                cells.extend([format!("{published:.1}"), format!("{found:.1}"), deviates(published, found)]);
            }
            table.row(cells);
        }
    }
    Ok(format!(
        "Tables 5 and 6: megabits per second of cryptotest, one request at a time, Pentium 4 of 1.8 GHz.\n\
         The worst cell is {worst:.1} % from the paper; {:.0} % were promised.\n\n{}\n",
        100.0 * THROUGHPUT_WITHIN,
        table.render(),
    ))
}

/// Table 7.
fn gain(rows: &mut Vec<Row>) -> Result<String, Failure> {
    let mut table = Table::new(&["DEVICE", "BYTES", "GAIN 2003", "OURS", ""], &[1, 2, 3, 4]);
    let mut worst = 0_f64;
    for (device, gains) in &GAIN {
        for (&bytes, &published) in BYTES.iter().zip(gains) {
            let throughput = |system| megabits(system, device, Algorithm::DesEde3Cbc, bytes);
            let found = 100.0 * (throughput(&FREEBSD)? / throughput(&OPENBSD)? - 1.0);
            let row = Row::new("Table 7", format!("{device} {bytes} bytes"), "%", Some(published), found);
            rows.push(row.within(Some(published - GAIN_WITHIN), Some(published + GAIN_WITHIN)));
            worst = worst.max((found - published).abs());
            table.row([
                (*device).to_owned(),
                bytes.to_string(),
                format!("{published:.0} %"),
                format!("{found:.0} %"),
                format!("{:+.0}", found - published),
            ]);
        }
    }
    Ok(format!(
        "Table 7: the gain of direct dispatch over two threads, 3DES.\n\
         The worst cell is {worst:.1} points from the paper; {GAIN_WITHIN:.0} were promised.\n\n{}\n",
        table.render(),
    ))
}

/// The throughput of one request at a time on a modelled card, in virtual time.
fn megabits(system: &System, device: &str, algorithm: Algorithm, bytes: usize) -> Result<f64, Failure> {
    const REQUESTS: u64 = 4;
    let clock = Arc::new(VirtualClock::default());
    let session = card(device, algorithm, &clock)?;
    let mut data = vec![0x5a; bytes];
    one(&session, &mut data)?; // the known-answer test comes before the first request
    let start = clock.now();
    for _ in 0..REQUESTS {
        clock.spend(system.request_ns + system.switches * SWITCH_NS);
        if system.switches > 0 {
            clock.spend(bytes.min(CACHED_BYTES) as u64 * COLD_PS_PER_BYTE / 1000);
        }
        one(&session, &mut data)?;
    }
    let ns = (clock.now() - start) as f64 / REQUESTS as f64;
    Ok(bytes as f64 * 8000.0 / ns)
}

/// A session in a framework that has this card only.
fn card(device: &str, algorithm: Algorithm, clock: &Arc<VirtualClock>) -> Result<Session, Failure> {
    let driver = model(Profile::named(device).expect("the cards of the paper are built in"), clock)?;
    let gantry = Gantry::builder().driver(&driver).clock(clock.clone()).build();
    // 24 different bytes: three DES keys.
    let key: Vec<u8> = (1..=24).map(|byte| byte * 8).collect();
    let key = if algorithm.kind() == Kind::Cipher { &key[..] } else { &[] };
    Ok(gantry.session(SessionParams::new(algorithm, key))?)
}

fn one(session: &Session, data: &mut [u8]) -> Result<(), Failure> {
    let algorithm = session.params().algorithm();
    if algorithm.kind() == Kind::Cipher {
        session.encrypt(&[7; 8], data)?;
    } else {
        let mut digest = [0; 64];
        session.digest(data, &mut digest[..algorithm.info().tag.max])?;
    }
    Ok(())
}
