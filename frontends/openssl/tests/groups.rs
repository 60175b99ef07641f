//! Post-quantum TLS groups, with `openssl` at both ends, in releases with and without groups of their own.

mod lab;

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;

use lab::groups::{End, ONLY_GROUPS, command, has_old_openssl, negotiated, new_lab, with_groups};
use lab::{Lab, counters, text, tls};

const GROUPS: [&str; 6] =
    ["X25519MLKEM768", "SecP256r1MLKEM768", "SecP384r1MLKEM1024", "MLKEM512", "MLKEM768", "MLKEM1024"];
/// The group that we serve from 3.5 on.
const SERVED_GROUP: &str = "X25519MLKEM768";

#[test]
fn keys_agree_and_damaged_shares_are_refused() {
    if !has_old_openssl() {
        return;
    }
    let lab = Lab::new("groups-keys");
    let program = lab.compile("tests/groups.c");
    for section in [ONLY_GROUPS, lab::OFFLOADED, "POLICY = pin:lanes"] {
        let output = lab.command(program.to_str().unwrap(), &lab.configuration(section)).output().unwrap();
        assert_eq!(text(&output), "good\n", "{section}: {}", output.status);
    }
}

/// A program offers only groups that it can use: builds of OpenSSL leave curves out.
#[test]
#[cfg_attr(not(feature = "software"), ignore = "about the software device")]
fn groups_whose_curve_the_default_provider_lacks_are_not_reported() {
    let lab = Lab::new("groups-curveless");
    let program = lab.compile_with("tests/curveless.c", &["-lcrypto".into(), "-ldl".into()]);
    for (lacking, absent) in [
        (None, &[][..]),
        (Some("EC"), &["SecP256r1MLKEM768", "SecP384r1MLKEM1024"]),
        (Some("P-384"), &["SecP384r1MLKEM1024"]),
        (Some("X25519"), &["X25519MLKEM768"]),
    ] {
        let mut command = lab.command(program.to_str().unwrap(), Path::new("/dev/null"));
        let printed = text(&command.arg(lab.path("gantry.so")).args(lacking).output().unwrap());
        let expected: Vec<&str> = GROUPS.into_iter().filter(|group| !absent.contains(group)).collect();
        assert_eq!(printed.lines().collect::<Vec<_>>(), expected, "{lacking:?}");
    }
}

#[test]
fn tls_agrees_in_each_group_and_counts_it() {
    if !has_old_openssl() {
        return;
    }
    let lab = new_lab("groups-tls");
    let ours = lab.configuration(ONLY_GROUPS);
    let failed =
        lab.configuration("CIPHERS = NONE\nSIGNATURES = NONE\nKEY_EXCHANGE = NONE\nKDFS = NONE\nFORCE_FAIL = yes");
    for group in GROUPS {
        let arguments = format!("-groups {group}");
        tls(&lab, &ours, &ours, &arguments).unwrap_or_else(|error| panic!("{group}: {error}"));
        assert!(tls(&lab, &failed, &ours, &arguments).is_err(), "{group}: not used by the server");
        assert!(tls(&lab, &ours, &failed, &arguments).is_err(), "{group}: not used by the client");
    }
    lab.collect_statistics();
    tls(&lab, &ours, &ours, "-groups X25519MLKEM768").unwrap();
    let counters = counters(&lab);
    assert_eq!(counters["X25519MLKEM768"][2..4], [1, 64], "{counters:?}");
}

/// A program works with our list of groups even if the module is disabled or missing.
#[test]
fn a_list_with_the_group_harms_no_program_without_it() {
    if !has_old_openssl() {
        return;
    }
    let lab = new_lab("groups-without");
    let list = "X25519MLKEM768:X25519:P-256";
    let (ours, none) = (with_groups(&lab, ONLY_GROUPS, list), Path::new("/dev/null"));
    tls(&lab, &ours, &ours, "").unwrap();
    // A client with one classical share, and a server that asks for one.
    tls(&lab, &ours, none, "").unwrap();
    tls(&lab, none, &ours, "").unwrap();
    // One end supports only TLS 1.2.
    let openssl = Path::new("openssl");
    for (server, client) in [("-tls1_2", ""), ("", "-tls1_2")] {
        let (_server, port) = End::new(openssl, &ours, server).serve(&lab);
        End::new(openssl, &ours, client)
            .fetch(&lab, port)
            .unwrap_or_else(|error| panic!("{server}, {client}: {error}"));
    }
    let mut off = Lab::new("groups-off");
    for file in ["cert.pem", "key.pem", "answer"] {
        fs::copy(lab.path(file), off.path(file)).unwrap();
    }
    off.variables.push(("GANTRY_DISABLE", "1".to_owned()));
    let disabled = with_groups(&off, ONLY_GROUPS, list);
    tls(&off, &disabled, &disabled, "").unwrap();
    fs::remove_file(off.path("gantry.so")).unwrap();
    off.variables.clear();
    tls(&off, &disabled, &disabled, "").unwrap();
}

/// An alert (RFC 8446, 6.2).
const ILLEGAL_PARAMETER: u8 = 47;

/// A ClientHello of TLS 1.3 with one share.
fn client_hello(group: u16, share: &[u8]) -> Vec<u8> {
    fn prefixed(width: usize, body: &[u8]) -> Vec<u8> {
        [&body.len().to_be_bytes()[size_of::<usize>() - width..], body].concat()
    }
    let extension = |number: u16, body: &[u8]| [&number.to_be_bytes()[..], &prefixed(2, body)].concat();
    let group = group.to_be_bytes();
    let entry = [&group[..], &prefixed(2, share)].concat();
    let extensions = [
        extension(43, &prefixed(1, &[3, 4])),
        extension(10, &prefixed(2, &group)),
        extension(13, &prefixed(2, &[4, 3, 8, 4])),
        extension(51, &prefixed(2, &entry)),
    ]
    .concat();
    let body = [&[3, 3][..], &[7; 32], &[0], &prefixed(2, &[0x13, 1]), &[1, 0], &prefixed(2, &extensions)].concat();
    let message = [&[1][..], &prefixed(3, &body)].concat();
    [&[22, 3, 1][..], &prefixed(2, &message)].concat()
}

/// Returns shares that no server accepts, each with its group.
fn damaged_shares() -> [(u16, Vec<u8>); 6] {
    let zeros = vec![0; 1216];
    let not_reduced = [&[0xff; 3][..], &zeros[3..]].concat();
    let no_point = [&[4][..], &[1; 64], &[0; 1184]].concat();
    [
        (0x11EC, zeros[..1215].to_vec()),
        (0x11EC, [&zeros[..], &[0]].concat()),
        (0x11EC, zeros[..32].to_vec()),
        (0x11EC, not_reduced),
        (0x11EB, no_point),
        // The secret of X25519 would be all zeros.
        (0x11EC, zeros),
    ]
}

/// Returns the answer to a ClientHello with one share.
fn answer_to(port: u16, group: u16, share: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.write_all(&client_hello(group, share)).unwrap();
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    answer
}

#[test]
fn damaged_shares_lead_to_alerts_and_the_server_lives() {
    if !has_old_openssl() {
        return;
    }
    let lab = new_lab("groups-alerts");
    let ours = with_groups(&lab, ONLY_GROUPS, "X25519MLKEM768:SecP256r1MLKEM768:X25519");
    let end = End::new(Path::new("openssl"), &ours, "");
    let (_server, port) = end.serve(&lab);
    for (group, share) in damaged_shares() {
        let alert = [21, 3, 3, 0, 2, 2, ILLEGAL_PARAMETER];
        assert_eq!(answer_to(port, group, &share), alert, "{group:#x}, {} bytes", share.len());
    }
    end.fetch(&lab, port).unwrap();
}

fn check_with(series: &str) {
    if !has_old_openssl() {
        return;
    }
    let lab = new_lab(&format!("groups-{series}"));
    let (theirs, none) = (command(series), Path::new("/dev/null"));
    let old = Path::new("openssl");
    let ours = with_groups(&lab, ONLY_GROUPS, "X25519MLKEM768:X25519:P-256:SecP256r1MLKEM768");
    // Each group, in both directions.
    for group in GROUPS {
        let arguments = format!("-groups {group}");
        let (old_end, new_end) = (End::new(old, &ours, &arguments), End::new(&theirs, none, &arguments));
        for (server, client) in [(&old_end, &new_end), (&new_end, &old_end)] {
            let (_server, port) = server.serve(&lab);
            let output = client.fetch(&lab, port).unwrap_or_else(|error| panic!("{group}: {error}"));
            assert!(client.openssl == old || negotiated(&output, group), "{output}");
        }
    }
    let (_server, port) = End::new(old, &ours, "").serve(&lab);
    // Without arguments, as `config --post-quantum` leaves it, and with a classical client.
    for (arguments, group) in
        [("", "X25519MLKEM768"), ("-groups X25519", "X25519"), ("-groups P-256", "ECDH, prime256v1")]
    {
        let output = End::new(&theirs, none, arguments).fetch(&lab, port).unwrap();
        assert!(negotiated(&output, group), "{arguments}: {output}");
    }
    // The client sends a share that the server does not take: HelloRetryRequest.
    for (group, list) in [("SecP256r1MLKEM768", "P-384:SecP256r1MLKEM768"), ("X25519MLKEM768", "P-384:X25519MLKEM768")]
    {
        let output = End::new(&theirs, none, &format!("-groups {list} -msg")).fetch(&lab, port).unwrap();
        assert!(negotiated(&output, group) && output.matches("ClientHello").count() == 2, "{output}");
    }
    // A resumed session agrees anew.
    End::new(&theirs, none, "-sess_out session").fetch(&lab, port).unwrap();
    let output = End::new(&theirs, none, "-sess_in session").fetch(&lab, port).unwrap();
    assert!(output.contains("Reused, TLSv1.3") && negotiated(&output, "X25519MLKEM768"), "{output}");
    // Our client gets a HelloRetryRequest, and resumes.
    let (_server, port) = End::new(&theirs, none, "-groups X25519").serve(&lab);
    let output = End::new(old, &ours, "-msg").fetch(&lab, port).unwrap();
    assert_eq!(output.matches("ClientHello").count(), 2, "{output}");
    let (_server, port) = End::new(&theirs, none, "").serve(&lab);
    End::new(old, &ours, "-sess_out session").fetch(&lab, port).unwrap();
    let output = End::new(old, &ours, "-sess_in session").fetch(&lab, port).unwrap();
    assert!(output.contains("Reused, TLSv1.3"), "{output}");
}

#[test]
#[ignore = "fetches OpenSSL: make test-clients"]
fn groups_agree_with_those_of_3_5() {
    check_with("3.5");
}

#[test]
#[ignore = "fetches OpenSSL: make test-clients"]
fn groups_agree_with_those_of_4_0() {
    check_with("4.0");
}

/// From 3.5 on, our ML-KEM answers the shares of clients in the group of browsers. The default provider does everything else.
fn check_servers_of(series: &str) {
    let lab = new_lab(&format!("groups-server-{series}"));
    let (theirs, none) = (command(series), Path::new("/dev/null"));
    let list = "X25519MLKEM768:X25519:P-256:SecP256r1MLKEM768";
    let ours = with_groups(&lab, ONLY_GROUPS, list);
    let failed = with_groups(&lab, &format!("{ONLY_GROUPS}\nFORCE_FAIL = yes"), list);
    for group in GROUPS {
        let arguments = format!("-groups {group}");
        let fetch = |server: &Path, client: &Path| {
            let (_server, port) = End::new(&theirs, server, &arguments).serve(&lab);
            End::new(&theirs, client, &arguments).fetch(&lab, port)
        };
        for (server, client) in [(&*ours, none), (none, &ours), (&ours, &ours)] {
            let output = fetch(server, client).unwrap_or_else(|error| panic!("{group}: {error}"));
            assert!(negotiated(&output, group), "{group}: {output}");
        }
        assert_eq!(fetch(&failed, none).is_err(), group == SERVED_GROUP, "{group}: used by the server");
    }
    lab.write("early", "GET /answer HTTP/1.0\r\n\r\n");
    lab.collect_statistics();
    let (server, port) = End::new(&theirs, &ours, "-early_data").serve(&lab);
    let fetch = |arguments: &str| End::new(&theirs, none, arguments).fetch(&lab, port).unwrap();
    for (arguments, group) in [("", "X25519MLKEM768"), ("-groups X25519", "X25519"), ("-groups P-256", "prime256v1")] {
        let output = fetch(arguments);
        assert!(output.contains(group), "{arguments}: {output}");
    }
    // HelloRetryRequest.
    let output = fetch("-groups P-384:X25519MLKEM768 -msg");
    assert!(negotiated(&output, "X25519MLKEM768") && output.matches("ClientHello").count() == 2, "{output}");
    fetch("-sess_out session");
    let output = fetch("-sess_in session -early_data early");
    assert!(output.contains("Reused, TLSv1.3") && negotiated(&output, "X25519MLKEM768"), "{output}");
    assert!(output.contains("Early data was accepted"), "{output}");
    drop(server);
    let served = counters(&lab);
    assert_eq!(served["X25519MLKEM768"], [0, 0, 4, 4 * 64, 0, 0, 0, 0], "{served:?}");
    // A client's agreements are OpenSSL's, and are counted.
    let (_server, port) = End::new(&theirs, none, "").serve(&lab);
    End::new(&theirs, &ours, "").fetch(&lab, port).unwrap();
    let served = counters(&lab);
    assert_eq!(served["X25519MLKEM768"], [1, 64, 0, 0, 0, 0, 0, 0], "{served:?}");
    for section in ["TLS_GROUPS = no", "USE_SOFTDRIVERS = 0", "REQUIRE = validated"] {
        let mut list = lab.command(theirs.to_str().unwrap(), &lab.configuration(section));
        let listed = text(&list.args(["list", "-kem-algorithms"]).output().unwrap());
        assert!(listed.contains("X25519MLKEM768") && !listed.contains("gantry"), "{section}: {listed}");
    }
    // Damaged shares lead to the alerts that OpenSSL itself sends.
    let answers = [none, &ours].map(|configuration| {
        let (_server, port) = End::new(&theirs, configuration, "-groups X25519MLKEM768:SecP256r1MLKEM768").serve(&lab);
        damaged_shares().map(|(group, share)| answer_to(port, group, &share))
    });
    assert_eq!(answers[0], answers[1], "{series}");
}

#[test]
#[cfg_attr(feature = "software", ignore = "fetches OpenSSL: make test-clients")]
#[cfg_attr(not(feature = "software"), ignore = "about the software device")]
fn servers_of_3_5_agree_by_our_ml_kem() {
    check_servers_of("3.5");
}

#[test]
#[cfg_attr(feature = "software", ignore = "fetches OpenSSL: make test-clients")]
#[cfg_attr(not(feature = "software"), ignore = "about the software device")]
fn servers_of_4_0_agree_by_our_ml_kem() {
    check_servers_of("4.0");
}
