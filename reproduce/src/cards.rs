//! Tables 1 and 5 to 8 of the paper with modelled cards, and its Tables 2, 3 and 4 with this machine's own dispatch.

use std::sync::Arc;

use gantry_core::{Algorithm, Clock, Gantry, Kind, Session, SessionParams, VirtualClock};
use gantry_runtime::model::Profile;

use crate::dispatch;
use crate::paper::{GAIN, OPERAND_BYTES, SLOWER_HOST, STAGES, Series, THROUGHPUT};
use crate::report::{Result, Row, deviation, format_deviation, make_model};
use crate::table::Table;

/// Largest relative deviation of a throughput from the paper's throughput.
const MAX_THROUGHPUT_DEVIATION: f64 = 0.20;
/// Largest deviation of a gain, in percentage points.
const MAX_GAIN_DEVIATION_POINTS: f64 = 10.0;
/// Largest relative deviation of a stage of a request.
const MAX_STAGE_DEVIATION: f64 = 0.05;

/// A computer of the paper.
struct Host {
    /// Cost of a `cryptotest` request outside the card and its driver: system call, copies, and a process that sleeps and wakes.
    request_ns: u64,
    /// Additional cost of each byte.
    ps_per_byte: u64,
}

/// A Pentium 4 of 1.8 GHz. Table 5 has 172.4 us for 3DES with 8192 bytes on the BCM5822. Table 1 has 158.6 us for dispatch, card, done and
/// callback. The difference is left for the host.
const PENTIUM_4: Host = Host { request_ns: 13_800, ps_per_byte: 0 };
/// A Pentium II of 300 MHz, fitted to Table 8. The difference between Table 8 and Tables 5 and 6 is the same for all cards.
const PENTIUM_II: Host = Host { request_ns: 45_000, ps_per_byte: 13_750 };

struct System {
    name: &'static str,
    /// Number of switches of threads per request: one passes the request to the driver, another one passes the result back.
    switches: u64,
}

/// One switch of threads, fitted to the difference of Tables 5 and 6.
const SWITCH_NS: u64 = 10_550;
/// After the switches, the request's data is no longer in the cache. The cost of 3.7 ns a byte is two misses of 118 ns for each line of 64
/// bytes: one for the user's copy, one for the kernel's.
const COLD_PS_PER_BYTE: u64 = 3_700;
/// Data beyond this size is not in the cache before the switches either: the 8 KiB of a Pentium 4 hold the two copies of input and output.
const CACHED_BYTES: usize = 2048;

const FREEBSD: System = System { name: "FreeBSD", switches: 0 };
const OPENBSD: System = System { name: "OpenBSD", switches: 2 };

pub(crate) fn run(simulated_only: bool, rows: &mut Vec<Row>) -> Result<String> {
    let mut text = simulate_stages(rows)?;
    if !simulated_only {
        text += &dispatch::measure(rows)?;
        text += "\n";
    }
    text += &simulate_throughput(rows, "Tables 5 and 6", ["Table 5", "Table 6"], &PENTIUM_4, &THROUGHPUT)?;
    text += &simulate_gain(rows)?;
    text +=
        &simulate_throughput(rows, "Table 8, on a Pentium II of 300 MHz", ["Table 8"; 2], &PENTIUM_II, &SLOWER_HOST)?;
    Ok(text)
}

/// Simulates Table 1.
fn simulate_stages(rows: &mut Vec<Row>) -> Result<String> {
    let bytes = 8192;
    let clock = Arc::new(VirtualClock::default());
    let session = open_card("bcm5822", Algorithm::DesEde3Cbc, &clock)?;
    let mut data = vec![0x5a; bytes];
    run_request(&session, &mut data)?; // the known-answer test comes before the first request
    let (start, cpu_start) = (clock.now(), clock.spent());
    run_request(&session, &mut data)?;
    let (total_ns, cpu_ns) = (clock.now() - start, clock.spent() - cpu_start);
    let submit_ns = Profile::named("bcm5822").map_or(0, |profile| profile.submit_ns);
    let mut table = Table::new(&["STAGE", "NS 2003", "OURS", "DEVIATION"], 1);
    for ((stage, published), found) in STAGES.iter().zip([submit_ns, total_ns - cpu_ns, cpu_ns - submit_ns]) {
        let found = found as f64;
        let bounds = [1.0 - MAX_STAGE_DEVIATION, 1.0 + MAX_STAGE_DEVIATION].map(|share| Some(share * published));
        rows.push(
            Row::new("Table 1", (*stage).to_owned(), "ns", Some(*published), found).with_bounds(bounds[0], bounds[1]),
        );
        table.push_row([
            (*stage).to_owned(),
            format!("{published:.0}"),
            format!("{found:.0}"),
            format_deviation(*published, found),
        ]);
    }
    Ok(format!("Table 1: stages of one request, 3DES with {bytes} bytes on the BCM5822.\n\n{}\n", table.render()))
}

/// Simulates Tables 5, 6 and 8.
fn simulate_throughput(
    rows: &mut Vec<Row>,
    title: &str,
    names: [&str; 2],
    host: &Host,
    series: &[Series],
) -> Result<String> {
    let header = ["DEVICE", "ALGORITHM", "BYTES", "FREEBSD 2003", "OURS", "", "OPENBSD 2003", "OURS", ""];
    let mut table = Table::new(&header, 2);
    let mut worst = 0_f64;
    for Series { device, algorithm, freebsd, openbsd } in series {
        for (index, &bytes) in OPERAND_BYTES.iter().enumerate() {
            let mut cells = vec![(*device).to_owned(), algorithm.name().to_owned(), bytes.to_string()];
            for (system, name, published) in [(FREEBSD, names[0], freebsd[index]), (OPENBSD, names[1], openbsd[index])]
            {
                let found = megabits(host, &system, device, *algorithm, bytes)?;
                let case = format!("{device} {algorithm} {bytes} bytes, {}", system.name);
                let row = Row::new(name, case, "Mb/s", Some(published), found);
                let bounds = [1.0 - MAX_THROUGHPUT_DEVIATION, 1.0 + MAX_THROUGHPUT_DEVIATION]
                    .map(|share| Some(share * published));
                rows.push(row.with_bounds(bounds[0], bounds[1]));
                worst = worst.max(deviation(published, found).abs());
                cells.extend([format!("{published:.1}"), format!("{found:.1}"), format_deviation(published, found)]);
            }
            table.push_row(cells);
        }
    }
    Ok(format!(
        "{title}: megabits per second of cryptotest, one request at a time.\n\
         The worst cell is {worst:.1} % from the paper; the limit is {:.0} %.\n\n{}\n",
        100.0 * MAX_THROUGHPUT_DEVIATION,
        table.render(),
    ))
}

fn simulate_gain(rows: &mut Vec<Row>) -> Result<String> {
    let mut table = Table::new(&["DEVICE", "BYTES", "GAIN 2003", "OURS", ""], 1);
    let mut worst = 0_f64;
    for (device, gains) in &GAIN {
        for (&bytes, &published) in OPERAND_BYTES.iter().zip(gains) {
            let throughput = |system| megabits(&PENTIUM_4, system, device, Algorithm::DesEde3Cbc, bytes);
            let found = 100.0 * (throughput(&FREEBSD)? / throughput(&OPENBSD)? - 1.0);
            let row = Row::new("Table 7", format!("{device} {bytes} bytes"), "%", Some(published), found);
            rows.push(
                row.with_bounds(
                    Some(published - MAX_GAIN_DEVIATION_POINTS),
                    Some(published + MAX_GAIN_DEVIATION_POINTS),
                ),
            );
            worst = worst.max((found - published).abs());
            table.push_row([
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
         The worst cell is {worst:.1} points from the paper; the limit is {MAX_GAIN_DEVIATION_POINTS:.0}.\n\n{}\n",
        table.render(),
    ))
}

/// Returns the throughput of one request at a time on a modelled card, in megabits per second of virtual time.
fn megabits(host: &Host, system: &System, device: &str, algorithm: Algorithm, bytes: usize) -> Result<f64> {
    const REQUESTS: u64 = 4;
    let clock = Arc::new(VirtualClock::default());
    let session = open_card(device, algorithm, &clock)?;
    let mut data = vec![0x5a; bytes];
    run_request(&session, &mut data)?; // the known-answer test comes before the first request
    let start = clock.now();
    for _ in 0..REQUESTS {
        clock.spend(host.request_ns + bytes as u64 * host.ps_per_byte / 1000 + system.switches * SWITCH_NS);
        if system.switches > 0 {
            clock.spend(bytes.min(CACHED_BYTES) as u64 * COLD_PS_PER_BYTE / 1000);
        }
        run_request(&session, &mut data)?;
    }
    let ns = (clock.now() - start) as f64 / REQUESTS as f64;
    Ok(bytes as f64 * 8000.0 / ns)
}

/// Opens a session in a framework with only this card.
fn open_card(device: &str, algorithm: Algorithm, clock: &Arc<VirtualClock>) -> Result<Session> {
    let driver = make_model(Profile::named(device).expect("the cards of the paper are built in"), clock)?;
    let gantry = Gantry::builder().driver(&driver).clock(clock.clone()).build();
    // 24 different bytes: three DES keys.
    let key: Vec<u8> = (1..=24).map(|byte| byte * 8).collect();
    let key = if algorithm.kind() == Kind::Cipher { &key[..] } else { &[] };
    Ok(gantry.session(SessionParams::new(algorithm, key))?)
}

fn run_request(session: &Session, data: &mut [u8]) -> Result<()> {
    let algorithm = session.params().algorithm();
    if algorithm.kind() == Kind::Cipher {
        session.encrypt(&[7; 8], data)?;
    } else {
        let mut digest = [0; 64];
        session.digest(data, &mut digest[..algorithm.info().tag.max])?;
    }
    Ok(())
}
