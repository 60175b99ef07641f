//! The data path's process: devices, sockets, memory and privileges.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};

use gantry_esp::{Options, Server};
use gantry_lab::secrets;
use gantry_lab::wait_until;
use gantry_protocols::esp::{Integrity, Suite};

use crate::host::{Pair, Plan};
use crate::keys::{Keys, Sa, V4, V6, add_policies, install};
use crate::traffic::{Flow, datagrams, stream};

#[test]
#[ignore = "needs root and network namespaces"]
fn a_failing_device_loses_no_packet() {
    for faults in ["after=200,errors=1/3", "gone=300", "after=200,stalls=1/1", "full=1/2,late=1/2"] {
        let configuration = vec![
            ("models.faulty", "like=faulty,aes-128-gcm=2000+4000"),
            ("devices", "model:faulty=on"),
            ("policy", "pin:model:faulty"),
            ("faults", faults),
        ];
        let pair = Pair::with_tunnel(&Plan { configuration, ..Plan::default() });
        for host in [&pair.a, &pair.b] {
            // Leaves room for packets that wait for a stalled device.
            host.namespace.ip("link set gantry0 txqueuelen 20000");
        }
        let flows = [Flow::start(&pair.a, &pair.b, V4), Flow::start(&pair.b, &pair.a, V6)];
        stream(&pair.a, &pair.b, V4, 1 << 20);
        stream(&pair.b, &pair.a, V6, 1 << 20);
        flows.into_iter().for_each(Flow::assert_complete_and_in_order);
        for host in [&pair.a, &pair.b] {
            let status = host.status();
            assert_eq!(
                (&status["counters"]["failed"], &status["counters"]["forged"]),
                (&0.into(), &0.into()),
                "{faults}"
            );
            let mut rows = status["devices"].as_array().unwrap().iter();
            assert!(rows.any(|row| row["device"] == "model:faulty" && row["requests"].as_u64() > Some(50)), "{status}");
        }
    }
}

#[test]
#[ignore = "needs root and network namespaces"]
fn a_full_socket_delays_packets_and_loses_none() {
    let pair = Pair::with_tunnel(&Plan::default());
    // The queue of the shaped device holds more than the socket buffer, and the queue of the tunnel holds all packets.
    pair.a.namespace.ip("link set gantry0 txqueuelen 30000");
    let shaped = pair.a.run("tc", "qdisc add dev va root tbf rate 200mbit burst 128kb limit 64mb");
    if !shaped.status.success() {
        return gantry_lab::skip("kernel that shapes traffic (sch_tbf)");
    }
    let near = pair.a.udp(pair.a.inner[V4], 0);
    let payload = [7; 1300];
    for _ in 0..20_000 {
        near.send_to(&payload, (pair.b.inner[V4], 9)).unwrap();
    }
    stream(&pair.a, &pair.b, V6, 1 << 20);
    wait_until("all datagrams arrive", || {
        let sent = pair.a.counter("sent_packets");
        sent > 20_000 && pair.b.counter("received_packets") == sent
    });
    assert_eq!((pair.a.counter("unsent"), pair.a.counter("failed")), (0, 0));
}

/// Returns whether a process has these bytes anywhere in its memory.
fn has_bytes(process: u32, wanted: &[u8]) -> bool {
    secrets::count_copies(process, wanted).unwrap() > 0
}

#[test]
#[ignore = "needs root and network namespaces"]
fn keys_are_zeroized_when_their_sa_is_deleted() {
    let pair = Pair::with_data_paths(&Plan::default());
    let suites = [
        Keys::new(Suite::AesGcm { icv: 16 }, 36),
        Keys::new(Suite::ChaCha20Poly1305, 36),
        Keys::new(Suite::AesCbc(Integrity::HmacSha256), 32),
        Keys::new(Suite::AesCtr(Integrity::HmacSha512), 36),
    ];
    for keys in suites {
        let a_to_b = Sa::new(&pair.a, &pair.b, 0x1001, &keys);
        let b_to_a = Sa::new(&pair.b, &pair.a, 0x1002, &keys.with_other_keys());
        install(&[&a_to_b, &b_to_a]);
        add_policies(&a_to_b, &b_to_a);
        add_policies(&b_to_a, &a_to_b);
        stream(&pair.a, &pair.b, V4, 1 << 18);
        // Devices store keys without the salt.
        let secrets: Vec<&[u8]> = [&a_to_b, &b_to_a]
            .into_iter()
            .flat_map(|sa| [&sa.keys.key[..16], &sa.keys.integrity_key[..]])
            .filter(|secret| !secret.is_empty())
            .collect();
        for host in [&pair.a, &pair.b] {
            assert!(secrets.iter().all(|secret| has_bytes(host.process(), secret)), "the process has the keys in use");
        }
        pair.a.xfrm("state flush");
        pair.b.xfrm("state flush proto esp");
        for host in [&pair.a, &pair.b] {
            for secret in &secrets {
                wait_until(&format!("the keys {secret:02x?} are gone from {}, {:?}", host.device, keys), || {
                    !has_bytes(host.process(), secret)
                });
            }
            host.xfrm("policy flush");
        }
    }
}

#[test]
#[ignore = "needs root and network namespaces"]
fn a_user_with_cap_net_admin_alone_may_serve() {
    let mut pair = Pair::linked();
    // Other users than root cannot read all of cargo's files. The TUN device is accessible to everyone where udev runs.
    let folder = pair.a.folder().to_owned();
    let program = folder.join("program");
    gantry_lab::copy_program(std::env::current_exe().unwrap(), &program);
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    std::os::unix::fs::chown(&folder, Some(65534), Some(65534)).unwrap();
    let device = "mount -t tmpfs none /dev/net && mknod -m 666 /dev/net/tun c 10 200";
    let rights = "--reuid 65534 --regid 65534 --clear-groups --inh-caps -all,+net_admin --ambient-caps +net_admin --bounding-set -all,+net_admin";
    let script = format!("{device} && shift && exec setpriv {rights} {} \"$@\"", program.display());
    pair.a.serve(&Plan {
        under: vec!["unshare".into(), "--mount".into(), "sh".into(), "-c".into(), script, "sh".into()],
        ..Plan::default()
    });
    pair.b.serve(&Plan::default());
    let process = format!("/proc/{}", pair.a.process());
    assert_eq!(fs::metadata(&process).unwrap().uid(), 65534);
    let status = fs::read_to_string(format!("{process}/status")).unwrap();
    assert!(status.contains("CapEff:\t0000000000001000"), "{status}");
    assert_eq!(pair.a.status()["guarded"], true);
    // Raw sockets need another capability.
    let raw = Sa { in_udp: false, ..Sa::new(&pair.a, &pair.b, 0x1003, &Keys::gcm()) };
    assert!(pair.a.refused(&raw.add_command()).contains("ESP without UDP needs CAP_NET_RAW"));
    pair.add_tunnel(&Keys::gcm(), V4, "replay-window 128");
    for inner in [V4, V6] {
        datagrams(&pair.a, &pair.b, inner, [100].into_iter());
        stream(&pair.b, &pair.a, inner, 1 << 18);
    }
}

#[test]
#[ignore = "needs root and network namespaces"]
fn a_second_data_path_in_a_namespace_is_refused() {
    let pair = Pair::with_tunnel(&Plan::default());
    let options = Options { device: "other0".to_owned(), folder: pair.a.folder().join("other"), ..Options::default() };
    let gantry = gantry_runtime::open(gantry_runtime::Config::default()).unwrap();
    let refused = pair.a.namespace.enter(|| Server::new(gantry, options)).err().expect("the second data path starts");
    let text = "this network namespace: it has another data path, whose device is gantry0";
    assert_eq!(refused.to_string(), text);
    // The first data path works as before.
    datagrams(&pair.a, &pair.b, V4, [100].into_iter());
}
