//! Tests of the configuration's layers and messages.

use std::fs;

use gantry_core::RegisteredDevice;
use gantry_core::driver::Class;

use super::*;

fn config_of(texts: &[&str], variables: &[(&str, &str)]) -> Result<Config, String> {
    let folder = std::env::temp_dir().join(format!("gantry-config-{:?}", std::thread::current().id()));
    fs::create_dir_all(&folder).unwrap();
    let file = |(index, text): (usize, &&str)| {
        let path = folder.join(format!("{index}.toml"));
        fs::write(&path, text).unwrap();
        File { path, required: true }
    };
    let files: Vec<File> = texts.iter().enumerate().map(file).collect();
    let variables = variables.iter().map(|(name, value)| (OsString::from(name), OsString::from(value)));
    let config = Config::layered(files, variables).map_err(|error| error.to_string());
    fs::remove_dir_all(&folder).unwrap();
    config.map_err(|error| error.replace(&format!("{}/", folder.display()), ""))
}

fn value(config: &Config, key: &str) -> (String, String) {
    let shown = config.show().into_iter().find(|shown| shown.key == key).unwrap();
    (shown.value, shown.origin.to_string())
}

#[test]
fn later_layers_win_key_by_key() {
    let system = "policy = \"round-robin\"\ncpu = \"base\"\n[devices]\nnull = \"on\"\n";
    let user = "\n\npolicy = \"pin:lanes\"\n";
    let mut config = config_of(&[system, user], &[("GANTRY_CPU", "avx2")]).unwrap();
    assert_eq!(value(&config, "devices.null").0, "on");
    let (policy, origin) = value(&config, "policy");
    assert!(policy == "pin:lanes" && origin.ends_with("1.toml:3"), "{origin}");
    assert_eq!(value(&config, "cpu"), ("avx2".into(), "GANTRY_CPU".into()));
    config.set("cpu", "avx512", "--set cpu=avx512").unwrap();
    assert_eq!(value(&config, "cpu"), ("avx512".into(), "--set cpu=avx512".into()));
}

#[test]
fn reads_a_text_and_names_its_place_in_messages() {
    let config = Config::from_toml("policy = \"pin:lanes\"\n[devices]\nnull = \"on\"", "text").unwrap();
    assert_eq!(value(&config, "policy"), ("pin:lanes".into(), "text:1".into()));
    assert_eq!(value(&config, "devices.null"), ("on".into(), "text:3".into()));
    let error = Config::from_toml("\npolcy = 1", "text").unwrap_err().to_string();
    assert_eq!(error, "text:2: unknown key 'polcy'; did you mean policy?");
}

#[test]
#[cfg(all(feature = "dpdk", feature = "model"))]
fn errors_have_the_line_and_a_correction() {
    for (text, message) in [
        ("\npolcy = \"pin:lanes\"", "0.toml:2: unknown key 'polcy'; did you mean policy?"),
        (
            "\n\n[colour]\nx = 1",
            "0.toml:4: unknown key 'colour.x'; there are devices, policy, require, cpu, threads, verify, stats, dpdk, models, faults",
        ),
        (
            "cpu = \"avx521\"",
            "0.toml:1: cpu cannot be 'avx521': it is auto, avx512, vaes, avx2 or base; did you mean avx512?",
        ),
        ("verify = 0.001", "0.toml:1: verify cannot be '0.001': it is off or 1/N"),
        ("verify = \"1/0\"", "0.toml:1: verify cannot be '1/0': it is off or 1/N"),
        ("cpu = 3", "0.toml:1: cpu cannot be '3': it is auto, avx512, vaes, avx2 or base"),
        ("[devices]\nnull = true", "0.toml:2: devices.null cannot be 'true': it is on or off"),
        ("[cpu]\nlevel = \"base\"", "0.toml:2: unknown key 'cpu.level'"),
        (
            "devices.software = \"off\"",
            "0.toml:1: software cannot be turned off: requests end up there when all other devices fail",
        ),
    ] {
        assert_eq!(config_of(&[text], &[]).unwrap_err(), message);
    }
    let syntax = config_of(&["cpu = \"base\"\npolicy = \n"], &[]).unwrap_err();
    assert!(syntax.starts_with("0.toml:2: "), "{syntax}");
    let twice = config_of(&["cpu = \"base\"\ncpu = \"avx2\"\n"], &[]).unwrap_err();
    assert!(twice.starts_with("0.toml:2: "), "{twice}");
}

#[test]
fn variables_are_checked_like_files() {
    let wrong = |name, value| config_of(&[], &[(name, value)]).unwrap_err();
    for (name, suggestion) in [
        ("GANTRY_POLCY", "GANTRY_POLICY"),
        ("GANTRY_policy", "GANTRY_POLICY"),
        ("GANTRY_DEVICE", "GANTRY_DEVICES"),
        ("GANTRY_CONFG", "GANTRY_CONFIG"),
        ("GANTRY_DISABLED", "GANTRY_DISABLE"),
    ] {
        assert_eq!(wrong(name, "x"), format!("{name}: no such variable; did you mean {suggestion}?"));
    }
    assert_eq!(
        wrong("GANTRY_DEVICES", "null"),
        "GANTRY_DEVICES: devices takes NAME=on or NAME=off, with commas between"
    );
    let config = config_of(&[], &[("GANTRY_DEVICES", "null=on,cuda:0=off"), ("GANTRY", "x"), ("OTHER", "y")]).unwrap();
    assert_eq!(value(&config, "devices.null").0, "on");
    assert_eq!(value(&config, "devices.cuda:0").0, "off");
}

/// Tests variables such as those of a Kubernetes service named gantry.
#[test]
fn ignores_variables_of_other_programs() {
    for name in [
        "GANTRY_SERVICE_HOST",
        "GANTRY_SERVICE_PORT",
        "GANTRY_SERVICE_PORT_HTTP",
        "GANTRY_PORT",
        "GANTRY_PORT_80_TCP",
        "GANTRY_PORT_80_TCP_PROTO",
        "GANTRY_PORT_80_TCP_ADDR",
        "GANTRY_HOME",
        "GANTRY_SERVICE",
        "GANTRY_",
    ] {
        let config = config_of(&[], &[(name, "tcp://10.0.0.1:80")]).unwrap();
        assert!(config.show().iter().all(|shown| shown.origin == Origin::Default), "{name}");
    }
}

#[test]
fn a_named_file_must_exist() {
    let absent = |required| Config::layered(vec![File { path: "/nowhere/at all".into(), required }], []);
    assert!(absent(false).is_ok());
    assert!(absent(true).unwrap_err().to_string().starts_with("/nowhere/at all: "));
}

#[test]
fn the_sample_file_sets_every_key() {
    let sample = keys::sample();
    let examples = sample.lines().filter_map(|line| line.strip_prefix('#').filter(|line| !line.starts_with(' ')));
    let uncommented = examples.collect::<Vec<_>>().join(
        "
",
    );
    let config = config_of(&[&uncommented], &[]).unwrap();
    assert_eq!(config.show().iter().filter(|shown| shown.origin != Origin::Default).count(), KEYS.len());
}

#[test]
fn reading_a_text_takes_bounded_memory() {
    let keys = gantry_lab::memory::concat_parts(2000, |key| format!("k{key}=1\n"));
    let shared = format!("[{}]\n{keys}", "t".repeat(100_000));
    for (bomb, text) in [
        ("a table's name that keys share", shared),
        ("an array of short values", format!("a=[{}]", "0,".repeat(50_000))),
        ("short tables", gantry_lab::memory::concat_parts(20_000, |table| format!("[{table}]\n")) + "x=1"),
        ("a deep key", format!("{}a=1", "a.".repeat(50_000))),
    ] {
        let (read, taken) = gantry_lab::memory::measure(|| Config::from_toml(&text, "x").map(|_| ()));
        assert!(read.is_err(), "{bomb}");
        assert!(taken.peak_bytes <= 128 * text.len(), "{bomb}: {} bytes for {}", taken.peak_bytes, text.len());
    }
}

#[test]
fn refuses_a_file_that_is_too_long() {
    let long = "#".repeat(256 << 10);
    assert!(config_of(&[&long], &[]).is_ok());
    let message = config_of(&[&format!("{long}#")], &[]).unwrap_err();
    assert_eq!(message, "0.toml: larger than 256 KiB");
}

#[test]
fn a_required_validation_excludes_all_other_devices() {
    let mut config = Config::default();
    config.set("require", "validated", "REQUIRE").unwrap();
    let reason =
        |validated| config.exclusion_reason_of(&DeviceInfo { validated, ..DeviceInfo::new("lanes", Class::Simd) });
    assert_eq!(reason(true), None);
    assert_eq!(reason(false).as_deref(), Some("not a FIPS 140 validated module, which REQUIRE requires"));
    match crate::open(config) {
        Err(error) => {
            let refusal = "REQUIRE: no device of this machine says that it is a FIPS 140 validated module";
            assert_eq!(error.to_string(), refusal);
        }
        // This machine has a validated device.
        Ok(gantry) => {
            let mut used = gantry.devices().iter().filter(|device| device.details().is_some());
            assert!(used.all(RegisteredDevice::is_validated));
        }
    }
    let error = Config::default().set("require", "fips", "REQUIRE").unwrap_err().to_string();
    assert_eq!(error, "REQUIRE: require cannot be 'fips': it is none or validated");
}
