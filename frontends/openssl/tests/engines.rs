//! Models of hardware engines: the requests that an engine gets, and the effect of a failing engine on programs.

mod lab;

use std::fs;
use std::path::Path;
use std::process::Command;

use lab::{Lab, has_models, noise, text, tls};

#[test]
fn an_engine_gets_the_requests_that_are_large_enough_for_it() {
    if !has_models() {
        return;
    }
    let lab = Lab::new("kirkwood");
    lab.collect_statistics();
    let configuration = lab.configuration(
        "CIPHERS = AES-128-CBC\nDEVICES = model:kirkwood=on\nPOLICY = size-threshold:1024,host,model:kirkwood",
    );
    for (bytes, is_large) in [(16, false), (8192, true)] {
        let speed = format!("openssl speed -elapsed -seconds 1 -bytes {bytes} -evp aes-128-cbc");
        // If the machine stalls for 20 ms, the engine is late, and the default provider replaces it for a while.
        let is_routed = (0..5).any(|_| {
            let output = lab.sh(&speed, &configuration);
            assert!(output.status.success() && text(&output).contains("AES-128-CBC"), "{}", text(&output));
            let [default, _, engine, processed, ..] = lab::counters(&lab)["AES-128-CBC"];
            assert_eq!(processed, engine * bytes);
            let (served, idle) = if is_large { (engine, default) } else { (default, engine) };
            served > 0 && idle == 0
        });
        assert!(is_routed, "{bytes}");
    }
}

#[test]
fn a_connection_outlives_the_engine_that_fails_in_it() {
    if !has_models() {
        return;
    }
    let lab = Lab::new("outlive");
    lab.certificate("ec -pkeyopt ec_paramgen_curve:prime256v1");
    let answer = noise(2_000_000);
    lab.write("answer", &answer);
    fs::create_dir(lab.path("gantry")).unwrap();
    let none = Path::new("/dev/null");
    let engine = lab.configuration("CIPHERS = ALL\nDEVICES = model:faulty=on\nPOLICY = pin:model:faulty");
    let connect = |faults: &str, server: &Path, client: &Path, arguments: &str| {
        let model = "faulty = \"like=faulty\"";
        lab.write("gantry/gantry.toml", format!("faults = \"{faults}\"\n[models]\n{model}\n"));
        tls(&lab, server, client, arguments)
    };
    // In this suite, each record is one request.
    for arguments in ["-tls1_2 -cipher ECDHE-ECDSA-AES128-GCM-SHA256"] {
        // After some records, every request fails, the engine is removed, or it stops answering. The last engine is always busy.
        for faults in ["after=70,errors=1/1", "gone=70", "after=70,stalls=1/1", "full=1/2,late=1/2"] {
            for (server, client) in [(&*engine, none), (none, &*engine)] {
                connect(faults, server, client, arguments).unwrap_or_else(|error| panic!("{faults}: {error}"));
            }
        }
        // A wrongly sealed record ends the connection after correct bytes, which proves that the engine is used.
        assert!(connect("after=70,wrong=1/1", &engine, none, arguments).is_err(), "not used");
        let received = fs::read(lab.path("got")).unwrap();
        assert!(!received.is_empty() && answer.starts_with(&received), "{arguments}: wrong bytes");
        assert!(fs::read_to_string(lab.path("error")).unwrap().contains("bad record mac"), "{arguments}");
    }
}

#[test]
fn data_that_a_driver_overwrote_in_place_is_an_error_and_is_not_retried() {
    if !has_models() {
        return;
    }
    let lab = Lab::new("spoilt");
    let program = lab.compile("tests/spoilt.c");
    fs::create_dir(lab.path("gantry")).unwrap();
    let model = "faulty = \"like=faulty,aes-128-cbc=2000+4000,aes-256-xts=2000+4000\"";
    lab.write("gantry/gantry.toml", format!("faults = \"after=100,panics=1/1\"\n[models]\n{model}\n"));
    let engine = lab.configuration("CIPHERS = ALL\nDEVICES = model:faulty=on\nPOLICY = pin:model:faulty");
    for cipher in ["AES-128-CBC", "AES-256-XTS"] {
        // With separate buffers nothing is lost: the default provider repeats the request.
        for (in_place, expected) in [(None, "0 failed, 0 wrong\n"), (Some("in-place"), "1 failed, 0 wrong\n")] {
            let mut command = Command::new(&program);
            command.arg(&engine).arg(cipher).args(in_place).env("XDG_CONFIG_HOME", &lab.folder);
            let output = command.output().unwrap();
            assert_eq!(text(&output), expected, "{cipher}, {in_place:?}");
        }
    }
}
