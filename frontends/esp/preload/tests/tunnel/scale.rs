//! Many SAs at once: batches over all SAs, and several queues.

use gantry_lab::wait_until;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::host::{Host, Pair, Plan};
use crate::keys::{Keys, Sa, V4, V6};
use crate::traffic::{Flow, datagrams, stream};

/// Returns the address behind the tunnel that belongs to SA `number`.
fn address(number: u32) -> String {
    format!("10.12.{}.{}", 1 + number / 256, number % 256)
}

/// Adds `count` SAs from `a` to `b`. Each SA carries the packets to one address of `b`.
fn add_many_tunnels(pair: &Pair, count: u32) {
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

/// Sends one datagram to each address, and asserts that all arrive.
fn send_to_each(pair: &Pair, count: u32) {
    let near = pair.a.udp(pair.a.inner[V4], 0);
    let far = pair.b.udp([0; 4].into(), 0);
    let port = far.local_addr().unwrap().port();
    let mut arrived = vec![false; count as usize];
    let mut buffer = [0; 8];
    // Each round fits the buffers of sockets and devices.
    for from in (0..count).step_by(100) {
        let round = from..count.min(from + 100);
        for number in round.clone() {
            near.send_to(&number.to_be_bytes(), (address(number).as_str(), port)).unwrap();
        }
        for _ in round {
            far.recv(&mut buffer).unwrap();
            let number = u32::from_be_bytes(*buffer.first_chunk().unwrap());
            assert!(!std::mem::replace(&mut arrived[number as usize], true), "{number} arrived twice");
        }
    }
}

/// Returns the numbers of packets and of batches that a data path has counted; `side` is "sent" or "received".
fn batches(host: &Host, side: &str) -> (u64, u64) {
    (host.counter(&format!("{side}_packets")), host.counter(&format!("{side}_batches")))
}

#[test]
#[ignore = "as root, in network namespaces"]
fn each_of_many_sas_carries_its_own_packets() {
    for count in [1, 10, 1000] {
        let pair = Pair::with_data_paths(&Plan::default());
        add_many_tunnels(&pair, count);
        send_to_each(&pair, count);
        send_to_each(&pair, count);
        for host in [&pair.a, &pair.b] {
            wait_until("each SA has counted its packets", || {
                let status = host.status();
                let sas = status["sas"].as_array().unwrap();
                sas.len() == count as usize && sas.iter().all(|sa| sa["packets"] == 2)
            });
        }
    }
}

/// Returns whether all threads of the data path are stopped. A stop signal reaches threads one after another.
fn is_stopped(host: &Host) -> bool {
    let threads = std::fs::read_dir(format!("/proc/{}/task", host.process())).unwrap();
    let stat = |thread: std::fs::DirEntry| std::fs::read_to_string(thread.path().join("stat")).unwrap();
    threads.map(|thread| stat(thread.unwrap())).all(|stat| stat.contains(") T "))
}

#[test]
#[ignore = "as root, in network namespaces"]
fn packets_of_many_sas_share_a_batch() {
    let pair = Pair::with_data_paths(&Plan::default());
    add_many_tunnels(&pair, 100);
    let near = pair.a.udp(pair.a.inner[V4], 0);
    // Packets that arrive while the data path is stopped are taken together.
    let signal = |host: &Host, signal| kill(Pid::from_raw(host.process().cast_signed()), signal).unwrap();
    // The sending thread takes 256 packets in a pass; the receiving thread takes eight datagrams.
    for (host, side, most) in [(&pair.a, "sent", 2), (&pair.b, "received", 14)] {
        let before = batches(host, side);
        let sent = pair.a.counter("sent_packets");
        let arrived = pair.b.counter("received_packets");
        signal(host, Signal::SIGSTOP);
        wait_until("every thread is stopped", || is_stopped(host));
        for number in 0..100 {
            near.send_to(b"batch", (address(number).as_str(), 9)).unwrap();
        }
        if side == "received" {
            pair.a.await_counter("sent_packets", sent + 100);
        }
        signal(host, Signal::SIGCONT);
        wait_until("all packets are counted", || batches(host, side).0 == before.0 + 100);
        let count = batches(host, side).1 - before.1;
        assert!(count <= most, "{side}: 100 packets in {count} batches");
        // Keeps packets of this round out of the next one's count.
        pair.b.await_counter("received_packets", arrived + 100);
    }
}

#[test]
#[ignore = "as root, in network namespaces"]
fn two_queues_share_sas_and_keep_their_order() {
    let pair = Pair::with_data_paths(&Plan { queues: 2, ..Plan::default() });
    pair.add_tunnel(&Keys::gcm(), V4, "replay-window 128");
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
    flows.into_iter().for_each(Flow::assert_whole);
    assert_eq!(pair.a.counter("replayed") + pair.b.counter("replayed"), 0);
    pair.remove_tunnel();
    add_many_tunnels(&pair, 200);
    send_to_each(&pair, 200);
}
