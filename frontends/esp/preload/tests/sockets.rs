//! Sockets under the library behave like those of netlink, also when the server goes and another one comes.

mod lab;

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::Stdio;
use std::time::{Duration, Instant};

use gantry_abi_xfrm::constants::group;
use gantry_abi_xfrm::private::Private;
use lab::{Lab, Server, have, soon, text};

#[test]
fn a_socket_has_the_names_of_netlink() {
    let lab = lab();
    let server = Server::new(&lab);
    let said = text(&lab.sh("./netlink open flags bind name join name leave name open-nonblocking flags name"));
    let named = |groups| format!("getsockname 0\nfamily 16 port own groups {groups} of 12\n");
    let expected = [
        "cloexec 1 nonblocking 0\nbind 0\n",
        &named("0x3"),
        "join 0\n",
        &named("0x83"),
        "leave 0\n",
        &named("0x3"),
        "cloexec 1 nonblocking 1\n",
        &named("0"),
    ];
    assert_eq!(said, expected.concat());
    soon("what the program has set", || {
        let groups: Vec<_> = server.state.lock().unwrap().private.iter().map(groups_of).collect();
        // Each connection has a thread of its own.
        let (first, other): (Vec<u32>, Vec<u32>) = groups.into_iter().partition(|&groups| groups != 0);
        first == [3, 0x83, 3] && other == [0, 0]
    });
}

#[test]
fn an_answer_comes_from_the_kernel_and_can_be_looked_at_before() {
    let lab = lab();
    let _server = Server::new(&lab);
    let said = text(&lab.sh("./netlink open request peek peek answer answer-now poll"));
    let answer = "family 16 port 0 of 12, type 0x22 sequence 1\n";
    let expected =
        format!("write 20\nrecvfrom 40: {answer}recvfrom 40: {answer}recvfrom 40: {answer}recvfrom EAGAIN\npoll 0\n");
    assert_eq!(said, expected);
}

#[test]
fn an_answer_is_there_for_a_receive_that_does_not_wait() {
    let lab = lab();
    let server = Server::new(&lab);
    server.state.lock().unwrap().late = Duration::from_millis(200);
    let said = text(&lab.sh("./netlink open-nonblocking request answer answer-now open request answer-now"));
    let got = |sequence| format!("write 20\nrecvfrom 40: family 16 port 0 of 12, type 0x22 sequence {sequence}\n");
    assert_eq!(said, format!("{}recvfrom EAGAIN\n{}", got(1), got(2)));
}

#[test]
fn a_receive_that_does_not_wait_ends_although_the_server_says_nothing() {
    let lab = lab();
    let server = Server::new(&lab);
    server.state.lock().unwrap().mute = true;
    let begin = Instant::now();
    assert_eq!(text(&lab.sh("./netlink open-nonblocking request answer")), "write 20\nrecvfrom EAGAIN\n");
    assert!(begin.elapsed() < Duration::from_secs(20));
}

#[test]
fn a_request_whose_server_goes_is_refused_and_poll_loops_rest() {
    let lab = lab();
    let server = Server::new(&lab);
    server.state.lock().unwrap().mute = true;
    let mut program = Program::new(&lab, "open bind request line poll peek answer poll answer-now request");
    program.until("ready");
    drop(server);
    program.go();
    let refused = "recvfrom 36: family 16 port 0 of 12, type 0x2 sequence 1";
    assert_eq!(
        program.rest(),
        format!(
            "poll 1 in hangup\n{refused}\n{refused} error ECONNREFUSED\npoll 0\nrecvfrom EAGAIN\nwrite ECONNREFUSED\n"
        )
    );
}

#[test]
fn events_that_may_be_lost_are_announced_and_the_next_server_is_found_by_a_request() {
    let lab = lab();
    let server = Server::new(&lab);
    let mut program = Program::new(&lab, "open bind join line poll answer poll request line request answer");
    program.until("ready");
    drop(server);
    program.go();
    program.until("ready");
    assert_eq!(
        program.said,
        ["bind 0", "join 0", "ready", "poll 1 in hangup", "recvfrom ENOBUFS", "poll 0", "write ECONNREFUSED", "ready"]
    );
    let server = Server::new(&lab);
    program.go();
    assert_eq!(program.rest(), "write 20\nrecvfrom 40: family 16 port 0 of 12, type 0x22 sequence 2\n");
    let told = server.state.lock().unwrap().private.iter().map(groups_of).collect::<Vec<_>>();
    assert_eq!(told, [0x83], "the next server hears of the groups");
}

#[test]
fn a_server_that_is_back_at_once_is_found_by_a_socket_that_only_listens() {
    let lab = lab();
    let server = Server::new(&lab);
    let mut program = Program::new(&lab, "open bind line answer poll line poll");
    program.until("ready");
    drop(server);
    let server = Server::new(&lab);
    program.go();
    program.until("ready");
    assert_eq!(program.said, ["bind 0", "ready", "recvfrom ENOBUFS", "poll 0", "ready"]);
    assert_ne!(server.groups() & 1 << (group::EXPIRE - 1), 0);
    server.tell(&gantry_abi_xfrm::Message::Expire(
        gantry_abi_xfrm::Expire {
            sa: gantry_abi_xfrm::Sa::new(
                gantry_abi_xfrm::SaId { destination: [10, 0, 0, 1].into(), spi: 1, protocol: 50 },
                [10, 0, 0, 2].into(),
            ),
            hard: false,
        }
        .into(),
    ));
    program.go();
    assert_eq!(program.rest(), "poll 1 in\n");
}

#[test]
fn a_request_after_a_server_has_gone_and_come_needs_no_second_try() {
    let lab = lab();
    let server = Server::new(&lab);
    let mut program = Program::new(&lab, "open request answer line request answer");
    program.until("ready");
    drop(server);
    let _server = Server::new(&lab);
    program.go();
    assert_eq!(program.rest(), "write 20\nrecvfrom 40: family 16 port 0 of 12, type 0x22 sequence 2\n");
}

#[test]
fn a_request_that_was_lost_is_refused_although_another_found_the_next_server() {
    let lab = lab();
    let server = Server::new(&lab);
    server.state.lock().unwrap().mute = true;
    let mut program = Program::new(&lab, "open request line request answer answer");
    program.until("ready");
    drop(server);
    let _server = Server::new(&lab);
    program.go();
    let rest = program.rest();
    assert!(rest.contains("type 0x2 sequence 1 error ECONNREFUSED") && rest.contains("type 0x22 sequence 2"), "{rest}");
}

#[test]
fn a_descriptor_that_is_another_file_by_now_is_left_alone() {
    let lab = lab();
    let _server = Server::new(&lab);
    assert_eq!(text(&lab.sh("./netlink open reuse")), "same 1 length 8 name netlink\ngetsockname ENOTSOCK\n");
}

#[test]
fn more_sockets_than_the_table_has_are_refused_and_closed_ones_make_room() {
    let lab = lab();
    let _server = Server::new(&lab);
    assert_eq!(text(&lab.sh("./netlink again many")), "opened 200\nopened 64, then EMFILE\n");
}

#[test]
fn a_child_uses_its_parents_socket() {
    let lab = lab();
    let _server = Server::new(&lab);
    let said = text(&lab.sh("./netlink open fork request answer"));
    let got = "write 20\nrecvfrom 40: family 16 port 0 of 12, type 0x22 sequence 1\n";
    assert_eq!(said, got.repeat(2));
}

#[test]
fn a_port_that_the_server_shares_is_bound_with_reuseport_and_the_server_hears_of_it() {
    if !have(&["unshare", "root"]) {
        return;
    }
    let lab = lab();
    let server = Server::new(&lab);
    server.state.lock().unwrap().shared = vec![4500];
    let own = |arguments: &str| text(&lab.sh(&format!("unshare -n sh -c 'ip link set lo up; ./udp {arguments}'")));
    let expected = |port| {
        format!("bind done\nreuseport {port}\nencap done 0\ngro done 0\nblock EOPNOTSUPP 0\nallow done 0x47455350\n")
    };
    for (arguments, shared, address) in
        [("4 4500", 1, "127.0.0.1:4500"), ("6 4500", 1, "[::1]:4500"), ("4 500", 0, "127.0.0.1:500")]
    {
        assert_eq!(own(arguments), expected(shared), "{arguments}");
        let address = address.parse().unwrap();
        let mut told = vec![Private::Binding(address)];
        told.extend((shared == 1).then_some(Private::Bound(address, 0)));
        assert_eq!(server.state.lock().unwrap().private.drain(..).collect::<Vec<_>>(), told);
    }
    // A port that the kernel chooses is nobody's business, and one of another program's is an error that both hear of.
    assert_eq!(own("4 0"), expected(0));
    assert!(server.state.lock().unwrap().private.is_empty());
    let said = own("4 4500 taken");
    assert!(said.starts_with("bind EADDRINUSE\n"), "{said}");
    let address = "127.0.0.1:4500".parse().unwrap();
    let told = server.state.lock().unwrap().private.drain(..).collect::<Vec<_>>();
    assert_eq!(told, [Private::Binding(address), Private::Bound(address, 98)]);
}

#[test]
fn without_the_variable_udp_sockets_are_as_they_were_made() {
    if !have(&["unshare", "root"]) {
        return;
    }
    let lab = lab();
    let line = "unshare -n sh -c 'ip link set lo up; ./udp 4 4500'";
    let under = text(&lab.command(line).output().unwrap());
    assert_eq!(under, text(&lab.command(line).env_remove("LD_PRELOAD").output().unwrap()));
    assert!(under.contains("reuseport 0") && under.contains("gro done 1"), "{under}");
}

#[test]
fn without_the_variable_the_system_calls_are_the_same() {
    if !lab::installed("strace") {
        return gantry_lab::skip("strace");
    }
    let lab = lab();
    let calls = |preload: bool| {
        // What the loader does for the library itself comes before the program's first call.
        let line = format!(
            "env -u LD_PRELOAD strace -qq -e trace=network,read,write,close,poll,fcntl -o calls {} ./netlink open bind name join answer-now",
            if preload { format!("-E LD_PRELOAD={}", lab::library().display()) } else { String::new() },
        );
        let said = text(&lab.command(&line).output().unwrap());
        let calls = std::fs::read_to_string(lab.path("calls")).unwrap();
        let from = calls.find("socket(").expect("the program opens a socket");
        // The port is that of the process, and addresses of memory are random.
        let plain = |call: &str| {
            let call = call.split("nl_pid=").next().unwrap();
            call.split(", ").filter(|argument| !argument.starts_with("0x")).collect::<Vec<_>>().join(", ")
        };
        let calls = calls[from..].lines().map(plain).collect::<Vec<_>>();
        (said, calls)
    };
    let (said, without) = calls(false);
    assert!(said.contains("bind 0") && without.len() >= 5, "{said}{without:?}");
    assert_eq!(calls(true), (said, without));
}

/// A running program of `tests/programs/netlink.c`.
struct Program {
    running: lab::Running,
    output: BufReader<std::process::ChildStdout>,
    said: Vec<String>,
}

impl Program {
    fn new(lab: &Lab, actions: &str) -> Self {
        let mut command = lab.command(&format!("exec ./netlink {actions}"));
        command.env("GANTRY_XFRM", lab.socket()).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut running = lab::Running(command.spawn().unwrap());
        let output = BufReader::new(running.0.stdout.take().unwrap());
        Self { running, output, said: Vec::new() }
    }

    /// Reads until it waits for the test.
    fn until(&mut self, end: &str) {
        loop {
            let mut line = String::new();
            assert_ne!(self.output.read_line(&mut line).unwrap(), 0, "it ended after {:?}", self.said);
            self.said.push(line.trim_end().to_owned());
            if self.said.last().unwrap() == end {
                return;
            }
        }
    }

    fn go(&mut self) {
        self.running.0.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
    }

    /// What it says until its end.
    fn rest(&mut self) -> String {
        let mut rest = String::new();
        self.output.read_to_string(&mut rest).unwrap();
        rest
    }
}

fn lab() -> Lab {
    let lab = Lab::new();
    lab.compile("netlink");
    lab.compile("udp");
    lab
}

fn groups_of(message: &Private) -> u32 {
    match message {
        Private::Socket { groups, .. } => *groups,
        other => panic!("{other:?}"),
    }
}
