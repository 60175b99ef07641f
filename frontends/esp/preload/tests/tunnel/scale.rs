//! Many SAs at once: batches over all of them, and several queues.

use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::host::{Host, Pair, Plan, await_that};
use crate::keys::{Keys, Sa, V4, V6};
use crate::traffic::{Flow, datagrams, stream};

/// The address behind the tunnel that the SA of a number is for.
fn address(number: u32) -> String {
    format!("10.12.{}.{}", 1 + number / 256, number % 256)
}

/// Has `b` be all of these addresses, and each be reached by an SA of its own.
fn tie_many(pair: &Pair, count: u32) {
    pair.b.namespace.ip("route add local 10.12.0.0/16 dev lo");
    let (mut near, mut far) = (String::new(), String::new());
    for number in 0..count {
        let sa = Sa { reqid: number + 1, ..Sa::new(&pair.a, &pair.b, 0x1_0000 + number, &Keys::gcm()) };
        let selector = format!("src {}/32 dst {}/32", pair.a.inner[V4], address(number));
        near.extend([format!("xfrm {}\nxfrm policy add {selector} dir out {}\n", sa.add(), sa.template())]);
        far.extend([format!("xfrm {}\nxfrm policy add {selector} dir in {}\n", sa.add(), sa.template())]);
    }
    pair.b.xfrm_batch(&far);
    pair.a.xfrm_batch(&near);
}

/// Sends one datagram to each address, and looks that each arrives.
fn send_to_each(pair: &Pair, count: u32) {
    let near = pair.a.udp(pair.a.inner[V4], 0);
    let far = pair.b.udp([0; 4].into(), 0);
    let port = far.local_addr().unwrap().port();
    let mut got = vec![false; count as usize];
    let mut buffer = [0; 8];
    // Rounds that the buffers of sockets and devices hold.
    for from in (0..count).step_by(100) {
        let round = from..count.min(from + 100);
        for number in round.clone() {
            near.send_to(&number.to_be_bytes(), (address(number).as_str(), port)).unwrap();
        }
        for _ in round {
            far.recv(&mut buffer).unwrap();
            let number = u32::from_be_bytes(*buffer.first_chunk().unwrap());
            assert!(!std::mem::replace(&mut got[number as usize], true), "{number} came twice");
        }
    }
}

fn batches(host: &Host, side: &str) -> (u64, u64) {
    (host.counter(&format!("{side}_packets")), host.counter(&format!("{side}_batches")))
}

#[test]
#[ignore = "as root, in network namespaces"]
fn each_of_many_sas_carries_what_is_its_own() {
    for count in [1, 10, 1000] {
        let pair = Pair::serving(&Plan::default());
        tie_many(&pair, count);
        send_to_each(&pair, count);
        send_to_each(&pair, count);
        for host in [&pair.a, &pair.b] {
            await_that("each SA has counted its packets", || {
                let status = host.status();
                let sas = status["sas"].as_array().unwrap();
                sas.len() == count as usize && sas.iter().all(|sa| sa["packets"] == 2)
            });
        }
    }
}

/// Whether each thread of the data path is stopped. A signal to stop reaches threads one after another.
fn stands_still(host: &Host) -> bool {
    let threads = std::fs::read_dir(format!("/proc/{}/task", host.process())).unwrap();
    let stat = |thread: std::fs::DirEntry| std::fs::read_to_string(thread.path().join("stat")).unwrap();
    threads.map(|thread| stat(thread.unwrap())).all(|stat| stat.contains(") T "))
}

#[test]
#[ignore = "as root, in network namespaces"]
fn packets_of_many_sas_are_one_batch() {
    let pair = Pair::serving(&Plan::default());
    tie_many(&pair, 100);
    let near = pair.a.udp(pair.a.inner[V4], 0);
    // What comes while the data path does something else waits for it, and is taken together.
    let signal = |host: &Host, signal| kill(Pid::from_raw(host.process().cast_signed()), signal).unwrap();
    // One thread takes 256 packets in a pass, the other eight datagrams.
    for (host, side, most) in [(&pair.a, "sent", 2), (&pair.b, "received", 14)] {
        let before = batches(host, side);
        let sent = pair.a.counter("sent_packets");
        let arrived = pair.b.counter("received_packets");
        signal(host, Signal::SIGSTOP);
        await_that("every thread stands still", || stands_still(host));
        for number in 0..100 {
            near.send_to(b"batch", (address(number).as_str(), 9)).unwrap();
        }
        if side == "received" {
            pair.a.await_counter("sent_packets", sent + 100);
        }
        signal(host, Signal::SIGCONT);
        await_that("all are counted", || batches(host, side).0 == before.0 + 100);
        let count = batches(host, side).1 - before.1;
        assert!(count <= most, "{side}: 100 packets in {count} batches");
        // The next round counts no packet of this one.
        pair.b.await_counter("received_packets", arrived + 100);
    }
}

#[test]
#[ignore = "as root, in network namespaces"]
fn two_queues_share_the_sas_and_keep_the_order_of_each() {
    let pair = Pair::serving(&Plan { queues: 2, ..Plan::default() });
    pair.tie(&Keys::gcm(), V4, "replay-window 128");
    let flows: Vec<Flow> = (0..4)
        .flat_map(|at| {
            let inner = [V4, V6][at % 2];
            [Flow::start(&pair.a, &pair.b, inner), Flow::start(&pair.b, &pair.a, inner)]
        })
        .collect();
    for inner in [V4, V6] {
        stream(&pair.a, &pair.b, inner, 2 << 20);
        stream(&pair.b, &pair.a, inner, 2 << 20);
        datagrams(&pair.a, &pair.b, inner, 10..60);
    }
    std::thread::sleep(Duration::from_millis(100));
    flows.into_iter().for_each(Flow::assert_whole);
    assert_eq!(pair.a.counter("replayed") + pair.b.counter("replayed"), 0);
    pair.untie();
    tie_many(&pair, 200);
    send_to_each(&pair, 200);
}
