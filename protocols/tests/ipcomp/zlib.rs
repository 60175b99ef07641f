//! zlib as the peer: each side decompresses the data of the other (RFC 2394: DEFLATE without zlib's header).

use std::io::Write as _;
use std::process::{Command, Stdio};

use gantry_lab::skip;
use gantry_protocols::ipcomp::{Mode, PROTOCOL};

use super::common::gantry;
use super::{decompress_wire, ends, noise, sent, session, text};

/// Runs a Python expression over the bytes `data`.
fn python(expression: &str, data: &[u8]) -> Option<Vec<u8>> {
    let program = format!("import sys, zlib; data = sys.stdin.buffer.read(); sys.stdout.buffer.write({expression})");
    let mut python =
        Command::new("python3").args(["-c", &program]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().ok()?;
    python.stdin.take().unwrap().write_all(data).unwrap();
    let output = python.wait_with_output().unwrap();
    assert!(output.status.success(), "{expression}");
    Some(output.stdout)
}

#[test]
fn zlib_and_gantry_decompress_each_others_data() {
    let gantry = gantry();
    for payload in [text(90), [noise(700), text(700)].concat(), text(65_515), vec![0; 65_515]] {
        for level in [1, 9] {
            let (outbound, inbound) = ends(&session(&gantry, level), Mode::Payload);
            let (wire, protocol) = sent(&outbound, &payload);
            assert_eq!((protocol, &wire[..4]), (PROTOCOL, &[17, 0, 0x12, 0x34][..]));
            let Some(theirs) = python("zlib.decompress(data, wbits=-15)", &wire[4..]) else { return skip("python3") };
            assert!(theirs == payload, "{} bytes at level {level}", payload.len());

            // Strategy 4: fixed codes. Level 0: stored blocks, which IPComp never sends and any peer can read.
            for made in [
                format!("zlib.compressobj({level}, wbits=-15)"),
                format!("zlib.compressobj({level}, wbits=-11)"),
                format!("zlib.compressobj({level}, wbits=-15, strategy=4)"),
                "zlib.compressobj(0, wbits=-15)".to_owned(),
            ] {
                let compressed =
                    python(&format!("(lambda o: o.compress(data) + o.flush())({made})"), &payload).unwrap();
                let theirs = [&wire[..4], &compressed].concat();
                assert_eq!(decompress_wire(&inbound, &theirs, payload.len()), Ok((payload.clone(), 17)), "{made}");
            }
        }
    }
}
