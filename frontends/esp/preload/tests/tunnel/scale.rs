//! Many SAs at once: batches over all SAs, and several queues.

use gantry_lab::wait_until;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::host::{Host, Pair, Plan};
use crate::keys::{Keys, Sa, V4, V6};
use crate::traffic::{Flow, datagrams, stream};

/// Returns the address of `b` that SA `number` leads to.
fn inner_address(number: u32) -> String {
    format!("10.12.{}.{}", 1 + number / 256, number % 256)
}

/// Adds `count` SAs from `a` to `b`, each with policies for the packets to one address of `b`.
fn add_many_sas(pair: &Pair, count: u32) {
    pair.b.namespace.ip("route add local 10.12.0.0/16 dev lo");
    let (mut a_commands, mut b_commands) = (String::new(), String::new());
    for number in 0..count {
        let sa = Sa { reqid: number + 1, ..Sa::new(&pair.a, &pair.b, 0x1_0000 + number, &Keys::gcm()) };
        let selector = format!("src {}/32 dst {}/32", pair.a.inner[V4], inner_address(number));
        a_commands.extend([format!(
            "xfrm {}\nxfrm policy add {selector} dir out {}\n",
            sa.add_command(),
            sa.template()
        )]);
        b_commands.extend([format!(
            "xfrm {}\nxfrm policy add {selector} dir in {}\n",
            sa.add_command(),
            sa.template()
        )]);
    }
    pair.b.xfrm_batch(&b_commands);
    pair.a.xfrm_batch(&a_commands);
}

/// Sends one datagram to each address, and asserts that all arrive.
fn send_to_each(pair: &Pair, count: u32) {
    let sender = pair.a.udp(pair.a.inner[V4], 0);
    let receiver = pair.b.udp([0; 4].into(), 0);
    let port = receiver.local_addr().unwrap().port();
    let mut arrived = vec![false; count as usize];
    let mut buffer = [0; 8];
    // The datagrams of a round fit the buffers of sockets and devices.
    for start in (0..count).step_by(100) {
        let round = start..count.min(start + 100);
        for number in round.clone() {
            sender.send_to(&number.to_be_bytes(), (inner_address(number).as_str(), port)).unwrap();
        }
        for _ in round {
            receiver.recv(&mut buffer).unwrap();
            let number = u32::from_be_bytes(*buffer.first_chunk().unwrap());
            assert!(!std::mem::replace(&mut arrived[number as usize], true), "{number} arrived twice");
        }
    }
}

/// Returns the numbers of packets and of batches that a data path has counted; `direction` is "sent" or "received".
fn packets_and_batches(host: &Host, direction: &str) -> (u64, u64) {
    (host.counter(&format!("{direction}_packets")), host.counter(&format!("{direction}_batches")))
}

#[test]
#[ignore = "needs root and network namespaces"]
fn each_of_many_sas_carries_its_own_packets() {
    for count in [1, 10, 1000] {
        let pair = Pair::with_data_paths(&Plan::default());
        add_many_sas(&pair, count);
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

/// Returns whether all threads of the data path are stopped. SIGSTOP reaches them one after another.
fn is_stopped(host: &Host) -> bool {
    let threads = std::fs::read_dir(format!("/proc/{}/task", host.process())).unwrap();
    let read_stat = |thread: std::fs::DirEntry| std::fs::read_to_string(thread.path().join("stat")).unwrap();
    threads.map(|thread| read_stat(thread.unwrap())).all(|stat| stat.contains(") T "))
}

#[test]
#[ignore = "needs root and network namespaces"]
fn packets_of_many_sas_share_a_batch() {
    let pair = Pair::with_data_paths(&Plan::default());
    add_many_sas(&pair, 100);
    let sender = pair.a.udp(pair.a.inner[V4], 0);
    let send_signal = |host: &Host, signal| kill(Pid::from_raw(host.process().cast_signed()), signal).unwrap();
    // The sending thread takes up to 256 packets at a time, and the receiving thread up to eight datagrams, so 100 packets make at most 1
    // batch when sent, and 13 when received. A thread that had begun to take packets when it was stopped needs one more.
    for (host, direction, max_batches) in [(&pair.a, "sent", 2), (&pair.b, "received", 14)] {
        let (packets_before, batches_before) = packets_and_batches(host, direction);
        let sent_before = pair.a.counter("sent_packets");
        let received_before = pair.b.counter("received_packets");
        // Packets queue up while the data path is stopped. After SIGCONT, it takes them in full batches.
        send_signal(host, Signal::SIGSTOP);
        wait_until("every thread is stopped", || is_stopped(host));
        for number in 0..100 {
            sender.send_to(b"batch", (inner_address(number).as_str(), 9)).unwrap();
        }
        if direction == "received" {
            pair.a.await_counter("sent_packets", sent_before + 100);
        }
        send_signal(host, Signal::SIGCONT);
        wait_until("all packets are counted", || packets_and_batches(host, direction).0 == packets_before + 100);
        let batches = packets_and_batches(host, direction).1 - batches_before;
        assert!(batches <= max_batches, "{direction}: 100 packets in {batches} batches");
        // Wait for all packets of this round, so that the next round does not count them.
        pair.b.await_counter("received_packets", received_before + 100);
    }
}

#[test]
#[ignore = "needs root and network namespaces"]
fn two_queues_share_sas_and_keep_flows_in_order() {
    let pair = Pair::with_data_paths(&Plan { queues: 2, ..Plan::default() });
    pair.add_tunnel(&Keys::gcm(), V4, "replay-window 128");
    let flows: Vec<Flow> = (0..4)
        .flat_map(|index| {
            let inner = [V4, V6][index % 2];
            [Flow::start(&pair.a, &pair.b, inner), Flow::start(&pair.b, &pair.a, inner)]
        })
        .collect();
    for inner in [V4, V6] {
        stream(&pair.a, &pair.b, inner, 2 << 20);
        stream(&pair.b, &pair.a, inner, 2 << 20);
        datagrams(&pair.a, &pair.b, inner, 10..60);
    }
    flows.into_iter().for_each(Flow::assert_complete_and_in_order);
    assert_eq!(pair.a.counter("replayed") + pair.b.counter("replayed"), 0);
    pair.remove_tunnel();
    add_many_sas(&pair, 200);
    send_to_each(&pair, 200);
}
